"""The pricing service, its upstream, its load, and the comparison of five ways to serve it (`greenlane demo pricing`).

pricing     the service: a Flask application that knows nothing of Greenlane
upstream    the service it calls: answers after 100 ms
work        how many iterations one millisecond of CPU is, measured once
rates       how many requests per second of each endpoint make 0.6, 0.8, 0.9 of one worker
load        the open-loop load, in a process of its own
contenders  the servers that are compared: started, watched, ended
samples     raw samples: files, pooling, percentiles, intervals
rows        one row per cell, with the names that every table and plot uses
runner      the order of it all, and what is printed
page        the result as one HTML file
"""
