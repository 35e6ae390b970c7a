"""Why a function runs where it does, in words: what its calls cost, then what the alternative would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from greenlane.placement.crossing import Crossing

__all__ = ["reason"]

Seen = Sequence[tuple[int, int, int]]
_RELEASED: Final = 700
#: Callers that wait this many times longer than a call takes wait for their turn.
_CROWDED: Final = 1.5


def reason(
    place: str,
    why: str,
    seen: Seen,
    weighed: Sequence[tuple[int, int]],
    costs: tuple[int, int, int],
    crossing: Crossing,
) -> str:
    """Say it.

    Args:
        place: where it runs.
        why: core's word for the reason.
        seen: (calls, median ns waited, median ns that a loop was kept), inline, thread, process.
        weighed: (lower quartile of ns taken, median ns that a loop was kept), thread and process, when last compared.
        costs: (median CPU ns, mean share without the GIL of 1000, ns that pickling keeps the caller).
        crossing: what was found out about crossing to another process.
    """
    inline, (calls, thread_took_ns, thread_lag_ns), _ = seen
    if not thread_took_ns and weighed[0][0]:  # It is being tried again.
        thread_took_ns, thread_lag_ns = weighed[0]
    thread = (calls, thread_took_ns, thread_lag_ns)
    work = _work(thread, costs)
    bytes_ = f"{crossing.in_band / 1e6:.2f} MB in band"
    if why == "new":
        return f"new: {thread[0]} calls measured"
    if why == "light" and place == "thread":
        return f"{_ms(thread[1])}: short, but it is not to run where its caller is"
    if why == "light":
        return f"{_ms(inline[1] or thread[1])}: a loop bears it"
    if why == "surprised":
        return "one of its last calls took far longer than the others"
    if why == "released":
        return f"{work}: it blocks nothing else"
    if why == "alone":
        return f"{work}; auto_placements names no process"
    if why == "refused":
        return f"{work}; it stays in this process: {crossing.refused}"
    if why == "payload":
        return f"{work}; {bytes_} would keep the loop for {_ms(costs[2])}"
    if why == "preparing":
        return f"{work}; worker processes are getting ready"
    if why == "budget":
        return f"{work}; what may be spent on trying (explore_ms) is spent"
    if why == "trying":
        return f"{work}; a process is being tried"
    (thread_ns, thread_lag_ns), (process_ns, process_lag_ns) = weighed
    if not thread_ns:
        return f"{work}, {bytes_}; compared by an earlier process"
    there = f"{_ms(process_ns)} in a process, {_ms(thread_ns)} on the thread"
    there += ", turns included" if thread_ns > _CROWDED * thread_took_ns > 0 else ""
    if place == "process" and (why == "calmer" or thread_ns < process_ns):
        there += f", where the loop waits {_ms(thread_lag_ns)} for the GIL"
    if place == "thread" and why == "calmer":
        there = f"{_ms(process_ns)} in a process, whose answers keep the loop for {_ms(process_lag_ns)}"
    return f"{work}, {bytes_}; {there}"


def _work(thread: tuple[int, int, int], costs: tuple[int, int, int]) -> str:
    took_ns, lag_ns = thread[1:]
    cpu_ns, released, _ = costs
    if not took_ns:
        return "measured by an earlier process"
    if released >= _RELEASED:
        kind = "that sleeps or waits" if cpu_ns * 8 < took_ns else "of native code"
        return f"{_ms(took_ns)} {kind}, {released / 10:.0f} % without the GIL"
    if cpu_ns * 8 < took_ns and lag_ns * 2 > took_ns:
        return f"{_ms(took_ns)} that waits with the GIL in its hands"
    if released >= 200:
        return f"{_ms(took_ns)} that hold the GIL for {100 - released / 10:.0f} % of it"
    return f"{_ms(took_ns)} of Python that holds the GIL"


def _ms(ns: int) -> str:
    ms = ns / 1e6
    return f"{ms:.0f} ms" if ms >= 20 else f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2f} ms"
