"""Lanes over processes: `greenlane serve`, a front, groups of workers, and the tree that holds them.

The parent
  tree, processes      the supervisor; what it has of the operating system
  group, staff         which worker of a group boots, serves, leaves; workers as processes, and those that do not turn
  succession           reload: what serves together, and what follows it after a change
  folders              what goes with the service; how commands find it
The front
  haproxy              its configuration, its process, its runtime socket
  trust, certificate   trusted peers; TLS
The workers
  worker               what their process runs; of the rest of this package it loads `settings` and `folders` alone
Lanes and limits
  settings, lanes      what is set; what it means for the front
  places               how many requests each worker gets at once, and why
  measured, at_once    what the workers did; how many requests they get for it, and routes that go to another lane
  rounds, live         what is looked at by the clock; the round that measures and sets
Seen from outside
  status               how it stands, for people and for Prometheus
  export               the same lanes for fleets
"""
