"""`greenlane demo offers`: each fix under the same riders and callers, measured beside the others; and the page.

- options: the command line; command: what is measured, in which order
- turn: one contender's turn in one region: its processes, load, offerservice's counts
- riders: who polls; warm: what every contender has before it is looked at
- added: what I/O endpoints wait beyond their own time, at a share of one core
- results: rows, and what must be shown
- live: the page: two services side by side, the fix of one switched while its riders go on
"""
