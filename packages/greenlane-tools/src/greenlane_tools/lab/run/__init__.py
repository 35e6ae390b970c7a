"""Runs of a scenario: contenders started side by side, interleaved, calibrated, watched, kept, compared.

server, arena       what is started, where it listens, what one job costs; one run
work_unit           how many iterations make a millisecond
pacing              how many requests per second, and when they are due
faults              stall, kill, slow, refuse
contrast            closed-loop tools beside the open loop
store               what was measured so far, on disk
rows                runs to make and runs that were made; one row per cell
judged              the scenario's bounds against rows, what was seen, and what makes it less than it looks
tables              text; which classes gain and which pay, against plain threads
page                the page, and the result as JSON
runner, talk        all of it in turn, and how it tells of itself
"""
