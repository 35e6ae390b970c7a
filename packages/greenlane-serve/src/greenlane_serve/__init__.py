"""Lanes over processes: `greenlane serve`, a front, groups of workers, and the tree that holds them.

match, lanes, layout   what the settings say, as the front needs it
haproxy                the front: its text, its process, its runtime socket
workers                what a worker process runs
places                 how many requests each worker gets at once, and why
lineup, succession     what serves together, and what follows it after a change
group, backoff         which worker of a group boots, serves, leaves
child, staff, beat     processes, workers among them, and their signs of life
doorkeeper             the front kept running, and told who serves
signals, listeners     signals as bytes, listening sockets
folders, whereabouts   what goes with the service; how commands find it
tree, notify           the parent of all
rounds, files          what it looks at by the clock; code that changes
hung, blocked          workers that hang; loops that do not turn
measured, limits       what the workers measure, and how many requests they get for it
apart                  routes that go to another lane, live
live, status, scrape   the round of these three; how it stands, for people and for Prometheus
"""
