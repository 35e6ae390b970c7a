"""Lanes over processes: `greenlane serve`, a front, groups of workers, and the tree that holds them.

match, lanes, layout   what the settings say, as the front needs it
haproxy                the front: its text, its process, its runtime socket
workers                what a worker process runs
places                 how many requests each worker gets at once, and why
child, group, backoff  processes that come and go
signals, listeners     signals as bytes, listening sockets
tree, notify           the parent of all
rounds, files          what it looks at by the clock, code that changes
"""
