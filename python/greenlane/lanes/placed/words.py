"""Why a function runs where it does, in words: what its calls cost, then what the alternative would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from greenlane.lanes.placed.crossing import Crossing

__all__ = ["reason"]

Seen = Sequence[tuple[int, int, int]]
_RELEASED: Final = 700


def reason(place: str, why: str, seen: Seen, costs: tuple[int, int, int], crossing: Crossing) -> str:
    """Say it.

    Args:
        place: where it runs.
        why: core's word for the reason.
        seen: (calls, median ns waited, median ns that a loop was kept), inline, thread, process.
        costs: (median CPU ns, share without the GIL of 1000, ns that pickling keeps the caller).
        crossing: what was found out about crossing to another process.
    """
    inline, thread, process = seen
    work = _work(thread, costs)
    in_process = f"{_ms(process[1])} in a process" if process[0] else ""
    bytes_ = f"{crossing.in_band / 1e6:.2f} MB in band"
    if why == "new":
        return f"new: {thread[0]} calls measured"
    if why == "light":
        return f"{_ms(inline[1] or thread[1])}: a loop bears it"
    if why == "surprised":
        return "one of its last calls took far longer than the others"
    if why == "released":
        return f"{work}: it keeps nobody"
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
    told = {"faster": "slower", "calmer": "as fast, and keeps the loop more", "equal": "as fast"}[why]
    if place == "process":
        return f"{work}, {bytes_}; {_ms(process[1])} there, on the thread {_ms(thread[1])}: {told}"
    return f"{work}; {in_process or 'a process'}, {bytes_}: {told}"


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
    return f"{_ms(took_ns)} of Python that holds the GIL"


def _ms(ns: int) -> str:
    ms = ns / 1e6
    return f"{ms:.0f} ms" if ms >= 20 else f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2f} ms"
