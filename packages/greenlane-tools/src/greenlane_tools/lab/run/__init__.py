"""Runs of a scenario: contenders started side by side, interleaved, calibrated, watched, kept, compared.

server, arena       what is started, where it listens, what one job costs
work_unit           how many iterations make a millisecond
pacing              how many requests per second, and when they are due
performed           runs to make, in their order; runs that were made
faults              stall, kill, slow, refuse
contrast            closed-loop tools beside the open loop
take                one run
store               what was measured so far, on disk
rows                one row per cell
judged              the scenario's bounds against rows, what was seen, and what makes it less than it looks
payers              which classes gain and which pay, against plain threads
tables              text
sections            parts of the page
page                the page, and the result as JSON
runner, talk        all of it in turn, and how it tells of itself
"""
