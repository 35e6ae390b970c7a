"""Lanes over processes: `greenlane serve`, a front, groups of workers, and the tree that holds them.

match, lanes, layout   what the settings say, as the front needs it
haproxy                the front: its text, its process, its runtime socket
workers                what a worker process runs
child, group, backoff  processes that come and go
tree, notify           the parent of all
"""
