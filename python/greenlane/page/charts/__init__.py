"""Drawings, one a file; each function takes plain values and gives the SVG as `Html`.

ridges         distributions on one logarithmic axis, a row each, with p50 and p99
whiskers       values with their intervals
stacked_bars   what a time consists of
heat_map       who did how much to whom
waterfall      one job's life
time_lines     values over time
flame_graph    stacks by weight; searched and zoomed in the browser
"""
