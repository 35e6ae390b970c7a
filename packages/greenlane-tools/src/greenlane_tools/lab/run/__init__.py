"""Runs of a scenario: contenders started side by side, interleaved, calibrated, watched, kept, compared.

site, server, arena     what is started, and where
address, gate           how it is reached; a relay that faults are done in
work_unit, calibration  what one job costs, and one millisecond of a service's own work
costs, pacing, replay   how many requests per second, and when they are due
cell                    runs to make, in their order
faults                  stall, kill, slow, refuse
contrast                closed-loop tools beside the open loop
performed, take         one run
store, sources          what was measured so far, on disk
rows, judged            one row per cell; the scenario's bounds against them
remarks, conclusion     what makes a result less than it looks, and what was seen
tables, document        text and JSON
sections, page          HTML
runner, talk            all of it in turn, and how it tells of itself
"""
