"""`greenlane lab placement`: where CPU work beside a loop runs best, function by function, ours among its rivals.

options       the command and its options
work          the functions that are placed, and what they are called with
functions     what each costs, in words and in numbers; what its user sends
model         the CatBoost model of the function `catboost`, trained once
contenders    placements and rivals; what this machine lacks for one
cells         what is run, in which order; repetitions take turns
run           one run in a process of its own that does not outlive us
programs/     what runs there: heartbeat, callers, and how each contender places a call
rows          one row a cell
verdicts      our claims, and whether they hold
perform       the command: what is run, and what is said of it
"""
