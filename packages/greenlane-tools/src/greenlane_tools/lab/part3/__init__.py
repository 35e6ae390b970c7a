"""Lyft's benchmark of green threads (part 3 of its gevent series), under seven runtimes and by three clocks.

shape        what a request does: CPU bursts and network waits
programs     the runtimes' programs, each in a process of its own
runtimes     the runtimes: command, environment, what is missing
run          one program run: started, awaited, ended; what it recorded
clocks       latencies from the handler, from the spawn, from the arrival; Little's law
cells        what is to be run, in which order
rows         one row a cell
presets      the published runs, and what they hide
timeline     the longest request in the published form
shown        the text of a run
page         the page of a run; `charts` its drawings, `picture` a drawing outside it
kept         every request as a table
"""
