"""The article's reasoning about one process, computed: who has the CPU in each cell of ten milliseconds.

cells           the simulator: requests that compute, wait for a network, compute, on one loop
reconstruction  which rows of cells give Request 7 its 70 ms that read 180
drawing         a run as lines of text, a character a cell
page            docs/offers-reasoning.md; `python -m offers.reasoning` writes it
"""
