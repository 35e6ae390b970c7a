"""`greenlane demo pos`: each worker on the same orders, measured beside the others.

- options, command: the command line
- run: what is measured, in which order
- turn: one worker's turn: its processes, the journal, what is left in the broker
- stages: a slow merchant; as much as a worker does; a rate that it can carry; how orders are published
- results: rows, and what must be shown; article: the figures of the account
"""
