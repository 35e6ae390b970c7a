"""The longest request as the article prints it: who had the CPU while its network was said to take so long.

    [0.763] Request 3: + 25.00ms CPU time
    [0.788] Request 3: + 150.00ms Network time
    [1.016] Request 3: - 150.00ms Network time took 228.47ms

`+` begins, `-` ends; seconds since the run began; requests are numbered in the order of their spawn.
"""

from __future__ import annotations

from collections.abc import Iterator

from greenlane_tools.lab.part3.clocks import longest
from greenlane_tools.lab.part3.run import Request, Run

__all__ = ["hidden", "lines"]


def lines(run: Run, request: Request | None = None) -> list[str]:
    """What happened from the first to the last burst of a request; None = of the longest by the handler's clock."""
    request = longest(run) if request is None else request
    first_ns, last_ns = request.handler_ns, request.marks_ns[-2]
    events = sorted(
        (at_ns, said.endswith("CPU time"), each.number, said)  # at one instant: what ends goes before what begins
        for each in run.requests
        for at_ns, said in _events(run, each)
        if first_ns <= at_ns <= last_ns
    )
    return [f"[{(at - run.began_ns) / 1e9:.3f}] Request {number}: {said}" for at, _, number, said in events]


def hidden(run: Run, request: Request | None = None) -> str:
    """What the published form leaves out of a request: how long it had waited before its first line."""
    request = longest(run) if request is None else request
    handler_ms = (request.end_ns - request.handler_ns) / 1e6
    before_ms = (request.handler_ns - request.arrival_ns) / 1e6
    return (
        f"Request {request.number}: {handler_ms:.2f}ms by its handler's clock, "
        f"{handler_ms + before_ms:.2f}ms since its place was free: {before_ms:.2f}ms before its first instruction"
    )


def _events(run: Run, request: Request) -> Iterator[tuple[int, str]]:
    marks, waits = request.marks_ns, run.shape.waits_ms()
    for number, burst_ms in enumerate(run.shape.bursts_ms()):
        begin_ns, end_ns = marks[2 * number : 2 * number + 2]
        if number:
            took_ms = (begin_ns - marks[2 * number - 1]) / 1e6
            yield begin_ns, f"- {waits[number - 1]:.2f}ms Network time took {took_ms:.2f}ms"
        if burst_ms:
            yield begin_ns, f"+ {burst_ms:.2f}ms CPU time"
        if number < len(waits):
            yield end_ns, f"+ {waits[number]:.2f}ms Network time"
