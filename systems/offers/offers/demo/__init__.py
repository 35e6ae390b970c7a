"""`greenlane demo offers`: each fix under the same riders and callers, measured beside the others; and the page.

- options, command: the command line
- run: what is measured, in which order
- turn: one contender's turn in one region: its processes, load, counts
- riders: who polls; warm: what every contender has before it is looked at
- counts: what offerservice has counted between two instants
- added: what I/O endpoints wait beyond their own time, at a share of one core
- rows, verdicts: what is said of it
- live: the page: two services side by side, the fix of one switched while its riders go on
"""
