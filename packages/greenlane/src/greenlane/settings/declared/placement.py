"""Where placed functions run: here, on a native thread, in a worker process, on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from greenlane.setting import declare
from greenlane.settings.declared.patterns import AUTO, CALLABLE, CLUSTER, PLACEMENT

__all__ = ["PlacementSettings"]


@dataclass(frozen=True)
class PlacementSettings:
    """The executors of `greenlane.run` and `@greenlane.placed`."""

    inline_ms: float = declare(
        1.0, "Calls of `greenlane.run` that are expected to take at most this run where their caller is.",
        unit="ms", low=0, high=1000,
        reason="Another thread costs some 0.05 ms and up to an interval to come back; a loop bears 1 ms.",
    )  # fmt: skip
    placed_queue: int = declare(
        1024, "Calls of `greenlane.run` that may wait for the native thread; the next one is refused (Overloaded).",
        low=1, high=1_000_000, reason="Arbitrary: at 5 ms a call a wait of 5 s; memory is bounded, a bug is seen.",
    )  # fmt: skip
    placement: str = declare(
        "auto", "Where functions under `@greenlane.placed` run that say nothing themselves; `auto` = as measured.",
        choices=("auto", "inline", "thread", "process", "cluster"),
        reason="Where a function runs best follows from what it does, and changes with it.",
    )  # fmt: skip
    placements: Mapping[str, str] = declare(
        {}, "Pins by name: glob on `module.qualified_name` = placement; stronger than what the code says.",
        pattern=PLACEMENT, reason="Nothing is pinned until somebody who runs the service wants it.",
    )  # fmt: skip
    auto_placements: tuple[str, ...] = declare(
        ("inline", "thread", "process"), "What `auto` chooses from; `thread` is always among them.",
        pattern=AUTO, reason="Who writes `@placed` says that the function may run anywhere on this machine.",
    )  # fmt: skip
    explore_ms: float = declare(
        500.0, "What looking for a better placement may cost the calls of one function in a minute, over its best one.",
        unit="ms", low=0, high=60_000, reason="Under 1 % of a minute; 0 = nothing is tried, only the thread is used.",
    )  # fmt: skip
    process_workers: int = declare(
        0, "Worker processes for placed functions; 0 = usable cores less one, but both of two. Start when needed.",
        low=0, high=1024, reason="Of two cores the loop, which mostly sleeps, takes what it needs: see placement.md.",
    )  # fmt: skip
    process_queue: int = declare(
        256, "Calls that may wait for a worker process; the next one is refused (Overloaded).",
        low=0, high=1_000_000, reason="Arbitrary: what waits behind so many has lost.",
    )  # fmt: skip
    arena_mb: float = declare(
        64.0, "Shared memory for arguments of each worker, and as much for results; what is larger goes a slower way.",
        low=1, high=1_000_000, reason="Some calls of 12 MB at once; only pages that were ever used cost memory.",
    )  # fmt: skip
    process_warm_up: str = declare(
        "", "Function without arguments that each new worker runs before its first call; '' = none.",
        pattern=CALLABLE, reason="Only the program knows what should be loaded.",
    )  # fmt: skip
    process_max_calls: int = declare(
        0, "Calls after which a worker is replaced by a fresh one; 0 = never.",
        low=0, high=1_000_000_000, reason="For functions that leak; others gain nothing.",
    )  # fmt: skip
    process_kill_s: float = declare(
        0.0, "Time that a call whose caller has left may go on before its worker is killed; 0 = to its own end.",
        unit="s", low=0, high=86_400, reason="Only the program knows whether what it does may be cut off.",
    )  # fmt: skip
    cluster_address: str = declare(
        "", "Ray of placement `cluster`: host:port, `auto` (RAY_ADDRESS, or this machine's), `local` (one of its own).",
        pattern=CLUSTER, reason="Nobody is connected to, and nothing started, that was not asked for; '' = refused.",
    )  # fmt: skip
    cluster_queue: int = declare(
        256, "Calls that may wait for a worker on the cluster; the next one is refused (Overloaded).",
        low=0, high=1_000_000, reason="Arbitrary: what waits behind so many has lost.",
    )  # fmt: skip
    cluster_workers: int = declare(
        8, "Most workers (Ray actors) of a process on the cluster; they start when needed, and go when idle for 60 s.",
        low=1, high=10_000, reason="Arbitrary: on a shared cluster, little.",
    )  # fmt: skip
    cluster_cpus: float = declare(
        1.0, "CPUs that Ray reserves for each worker while it is there.",
        low=0, high=1024, reason="A call computes on one core unless its function says otherwise.",
    )  # fmt: skip
