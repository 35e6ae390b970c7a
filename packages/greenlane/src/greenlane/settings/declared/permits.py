"""Permits, what is learned of phases, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass

from greenlane.setting import declare

__all__ = ["PermitSettings"]


@dataclass(frozen=True)
class PermitSettings:
    """Who may compute, and for how long others wait for it."""

    mode: str = declare(
        "on", "`on` = permits are in force; `observe` = counts what it would do; `off` = plain threads.",
        choices=("on", "observe", "off"), reason="Who installs it wants it to act; the worst case is plain threads.",
    )  # fmt: skip
    canary_frac: float = declare(
        1.0, "Share of the workers in which `mode = on` is in force; the others observe.",
        unit="frac", low=0, high=1, reason="All of them: lower it for a first rollout.",
    )  # fmt: skip
    permits: int = declare(
        0, "CPU permits per process; 0 = one under the GIL, the usable cores on a free-threaded build.",
        low=0, high=1024, reason="Under the GIL a second permit brings slicing back: heavy p99 204 ms against 124.",
    )  # fmt: skip
    interval_ms: float = declare(
        0.5, "Switch interval of the interpreter while a permit is held; longer where over two threads want the GIL.",
        unit="ms", low=0.05, high=100,
        reason="What wakes from I/O waits at most this. 0.1 ms gains little (p99 2.2, not 2.6 ms) for more switches; "
        "many who wait at 0.5 ms eat the CPU that they wait for (docs/design/0021).",
    )  # fmt: skip
    heavy_ms: float = declare(
        4.0, "A phase whose expected CPU burst is over this needs a permit.",
        unit="ms", low=0.1, high=1000,
        reason="Measured at 0.9 of a worker: at 2 ms every tail is over 3 times longer (docs/design/0005).",
    )  # fmt: skip
    quantile: float = declare(
        0.9, "Quantile of the learned bursts that is taken as expected.",
        unit="frac", low=0.5, high=0.99,
        reason="A mean calls a phase light that is heavy on every tenth call, a cache miss; a quantile does not.",
    )  # fmt: skip
    margin: float = declare(
        1.0, "Factor on the expected burst before it is compared with `heavy_ms`.",
        low=0.25, high=4, reason="1 = no bias: an error to either side costs little and is learned away.",
    )  # fmt: skip
    learn_after: int = declare(
        3, "Samples of a (route, phase) before it is judged; until then it runs free.",
        low=1, high=100, reason="The first call imports and fills caches; two more tell it from the rule.",
    )  # fmt: skip
    discipline: str = declare(
        "fifo", "Who gets the next permit: first come, earliest deadline, or shortest expected burst.",
        choices=("fifo", "deadline", "shortest"),
        reason="First come first served has the best tail for work of one kind and needs no deadlines.",
    )  # fmt: skip
    ageing_ms: float = declare(
        1000.0, "Wait after which a phase goes first, whatever the discipline says; 0 = never.",
        unit="ms", low=0, high=3_600_000, reason="Arbitrary; a tenth of the longest wait, so that nobody starves.",
    )  # fmt: skip
    wait_factor: float = declare(
        4.0, "A wait for a permit is bounded by this factor times the expected work ahead in the queue.",
        low=0.1, high=1000, reason="Bursts vary; four times what was expected ahead says that the estimate was wrong.",
    )  # fmt: skip
    wait_max_ms: float = declare(
        10_000.0, "Upper bound of that wait; then the phase runs without a permit and is counted.",
        unit="ms", low=1, high=60_000,
        reason="Measured at 0.9 of a worker: who gives up after 250 ms or 1 s competes, and every tail grows.",
    )  # fmt: skip
    hold_factor: float = declare(
        8.0, "A hold beyond this factor times its expected burst admits one more phase.",
        low=1, high=1000,
        reason="A spin wait or mislearned phase must not stop the others; rare under ordinary variance.",
    )  # fmt: skip
    hold_min_ms: float = declare(
        50.0, "Holds up to this never admit one more.",
        unit="ms", low=1, high=60_000, reason="Short bursts vary by large factors and end by themselves.",
    )  # fmt: skip
    max_routes: int = declare(
        512, "Routes that are learned per process; further ones run free together.",
        low=1, high=65_536, reason="Arbitrary; bounds memory where an application has no route names.",
    )  # fmt: skip
    max_phases: int = declare(
        32, "Phases that are told apart per job; later ones share the last.",
        low=1, high=1024, reason="Arbitrary; bounds memory where a job makes thousands of calls.",
    )  # fmt: skip
