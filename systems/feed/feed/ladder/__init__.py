"""`greenlane demo feed`: every variant on the same requests, measured beside each other.

- options, command: the command line
- run: what is measured, in which order; what is measured already
- subject: a service under measurement, its clocks and counters
- truth: whether an order is right, and how good it is
- loaded: one request at a time; open-loop load of the same requests for everybody; the most that a variant does; a
  shard killed under load
- shares: where its CPU goes, by stacks
- rows: one a cell, and what must be shown; tables: the article's steps beside ours
"""
