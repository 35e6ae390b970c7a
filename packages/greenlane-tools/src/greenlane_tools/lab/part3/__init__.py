"""Lyft's benchmark of green threads (part 3 of its gevent series), under seven runtimes and by three clocks.

options      the command and its options
runtimes     what a request does, and the runtimes: command, environment, what is missing
programs     the runtimes' programs, each in a process of its own
cells        what is to be run, in which order; one program run, and every request kept
rows         one row a cell: latencies by three clocks, Little's law, theory
presets      the published runs, and what they hide
shown        the text and the drawings of a run, and the longest request in the published form
perform      the command: what is run, and what is said of it
"""
