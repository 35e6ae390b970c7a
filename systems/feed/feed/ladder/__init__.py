"""`greenlane demo feed`: every variant on the same requests, measured beside each other.

options, command     the command line
steps_of_a_run       what is measured, in which order; what is done is kept
subject              a service under measurement: clocks and counters
questions            the requests, the same for everybody
truth                whether an order is right, and how good it is
alone, loaded        one request at a time; open-loop load
capacity             the most that a variant does
shares               where its CPU goes, by stacks
outage               a shard killed under load
rows, verdicts, article, tables    what is said of it
"""
