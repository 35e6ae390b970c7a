"""Load: open loop, timed from the scheduled send, generated natively in a process of its own.

plan          what is asked for: streams of requests and when they arrive
schedule      every request of a plan by time, as columns; the same for the same seed
recorded      arrivals as they once were: of a recording, a table's column, another program's log
log_file      reads such a log: of nginx, Apache, HAR, k6, locust; request_log: what they share
generate      runs a plan: samples, and whether the generator kept its schedule
closed        the contrast: a closed-loop tool, which waits for the server
"""
