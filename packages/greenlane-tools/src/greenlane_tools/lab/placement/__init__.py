"""`greenlane lab placement`: where CPU work beside a loop runs best, function by function, ours among its rivals.

options       the command and its options
work          the functions that are placed, and what they are called with
functions     what each costs, in words and in numbers; what its user sends
contenders    placements and rivals; what this machine lacks for one
cells         what is run, in which order; one run in a process of its own; one row a cell
programs/     what runs there: heartbeat, callers, and how each contender places a call
perform       the command: what is run, what is claimed, and what is said of it
"""
