"""`greenlane demo pos`: each worker on the same orders, measured beside the others.

- options, command: the command line
- run: what is measured, in which order
- turn: one worker's turn: its processes, the journal, what is left in the broker
- stages: a slow merchant; as much as a worker does; a rate that it can carry
- load: orders published in an open loop, or all beforehand
- rows, verdicts, article: what is said of it
"""
