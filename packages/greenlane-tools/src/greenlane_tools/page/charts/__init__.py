"""Drawings, one a file; each function takes plain values and gives the SVG as `Html`.

ridges         distributions on one logarithmic axis, a row each, with p50 and p99
curves         values over any quantity, with intervals, beside what theory says
histogram      how often each value came, several series laid over each other
cumulative     the share slower than each time: tails laid over each other
whiskers       values with their intervals
stacked_bars   what a time consists of
heat_map       who did how much to whom
waterfall      one job's life
time_lines     values over a recording's time
flame_graph    stacks by weight; searched and zoomed in the browser
"""
