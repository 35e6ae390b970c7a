"""What theory says of one CPU in a closed loop, slow and obvious: the twin of `crates/policy/src/closed_loop.rs`."""

from __future__ import annotations


def one_cpu(cpu: float, delay: float, number: int) -> tuple[float, float, float]:
    """(rate, latency, utilisation): mean value analysis as its paper has it."""
    queue, response, per = 0.0, float(cpu), 0.0
    for here in range(1, number + 1):
        response = cpu * (1 + queue)
        per = here / (response + delay)
        queue = per * response
    return per, response + delay, per * cpu
