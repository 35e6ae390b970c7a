"""The pricing service, its upstream, its load, and the comparison of five ways to serve it (`greenlane demo pricing`).

pricing      the service: a Flask application that knows nothing of Greenlane
upstream     the service it calls: answers after 100 ms
work         how many iterations one millisecond of CPU is, measured once
rates        endpoints, mixes, and how many requests per second make 0.6, 0.8, 0.9 of one worker
plan, load   what is sent when; the open-loop generator, a process of its own
processes    children on loopback: started, watched, ended
contenders   the servers that are compared
arena        the upstream and all contenders, up at the same time
calibration  what one job of each endpoint costs
comparison   the same load to one after another, interleaved
samples      raw samples, percentiles, intervals
rows         one row per cell, with the names that every table and plot uses
conclusion, tables, strips, page    what is said, printed and drawn of them
options, about, runner              the command
"""
