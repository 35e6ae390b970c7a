"""`greenlane demo pos`: each worker on the same orders, measured beside the others.

- options, command: the command line
- run: what is measured, in which order
- turn: one worker's turn: its processes, the journal, what is left in the broker
- load: orders published in an open loop, or all beforehand
- slow: ten merchants, one of them slow; full: as much as a worker does
- rows, verdicts, article, tables: what is said of it
"""
