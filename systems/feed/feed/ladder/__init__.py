"""`greenlane demo feed`: every variant on the same requests, measured beside each other.

- options, command: the command line; kept: what is measured already
- run: what is measured, in which order
- subject: a service under measurement, its clocks and counters
- truth: whether an order is right, and how good it is
- alone, loaded: one request at a time; open-loop load of the same requests for everybody
- capacity: the most that a variant does
- shares: where its CPU goes, by stacks
- outage: a shard killed under load
- rows, verdicts, article, tables: what is said of it
"""
