"""Lanes over processes: `greenlane serve`, a front, groups of workers, and the tree that holds them.

tree, processes        the parent of all; what it has of the operating system
lanes                  what the settings say, as the front needs it
group, staff           which worker of a group boots, serves, leaves; workers as processes, and those that do not turn
succession             what serves together, and what follows it after a change
haproxy                the front: its text, its process, its runtime socket
worker                 what a worker process runs; nothing else of this package is loaded there but `folders`
places                 how many requests each worker gets at once, and why
rounds, live           what is looked at by the clock; the round that sets limits and lanes
settings, rules        what is set; the same as greenlane-policy takes it
measured, at_once      what the workers did; how many requests they get for it, and routes that go to another lane
status                 how it stands, for people and for Prometheus
trust, certificate     whom the front believes; TLS
diversion              shares of routes that go to another version of the application
folders, whereabouts   what goes with the service; how commands find it
export                 the same lanes for fleets
"""
