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
tree, notify           the parent of all
rounds, hung, files    what it looks at by the clock; workers that hang; code that changes
"""
