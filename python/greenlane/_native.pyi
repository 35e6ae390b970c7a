"""Greenlane's native module: the manual of the seam.

Times are integer nanoseconds of `time.monotonic_ns()` unless a name says otherwise. Nothing here blocks with the GIL
held; what waits says so. Everything is safe to call from any thread, and on free-threaded builds.
"""

from collections.abc import Callable
from typing import Any, Final, final

from typing_extensions import disjoint_base

__all__ = ["BurstSketch", "Lock", "Paused", "PermitQueue", "Permits", "RLock", "__version__", "locks_held"]

__version__: Final[str]

@final
class Permits:
    """The CPU permits of one process, the jobs that take turns for them, and what is learned of their phases.

    A job belongs to one thread at a time. Methods that speak of "this thread's job" do nothing on a thread without one.

    Cost: `leave` + `enter` of a light phase about 0.15 us, on a thread without a job 40 ns each; `open` + `close` about
    0.8 us. A phase of more than a quarter of `heavy_ns` reads the thread's CPU clock: 0.2 to 1 us more. A permit that
    is free costs about 0.3 us.
    """

    def __new__(
        cls,
        *,
        permits: int,
        discipline: str,
        ageing_ns: int,
        heavy_ns: int,
        quantile: float,
        margin: float,
        learn_after: int,
        max_routes: int,
        max_phases: int,
        wait_factor: float,
        wait_min_ns: int,
        wait_max_ns: int,
        hold_factor: float,
        hold_min_ns: int,
        interval_s: float,
        mode: str,
        late_error: Callable[[], BaseException] | None = None,
    ) -> Permits:
        """Make permits; `greenlane.policy.PermitRule` says what each value means.

        `late_error` makes what blocking calls of late jobs raise; None = they never do.
        """

    def open(self, arrival_ns: int, deadline_ns: int = 0, route: str | None = None) -> bool:
        """Open a job on this thread and begin its first phase, which may wait (bounded, without the GIL) for a permit.

        False, and nothing happens: the thread has a job already (this one belongs to it), or the mode is off.
        `deadline_ns` 0 = none. `route` None = not known yet: the job runs free until `name`.
        """

    def close(self) -> tuple[int, int, int, int] | None:
        """End this thread's job: (CPU ns, permit wait ns, CPU ns after the deadline, phases). None without one."""

    def pause(self) -> Paused | None:
        """End the phase and take the job off this thread, to go on elsewhere or later. None without a job."""

    def leave(self, kind: int) -> None:
        """End this thread's phase: it is about to block. Gives its permit back. Nests.

        Raises: what `late_error` makes, before anything else happens, if the job is late and `kind` is a socket's.
        """

    def enter(self) -> None:
        """Answer `leave`. The outermost one begins the next phase, which may wait (bounded, without the GIL)."""

    def name(self, route: str) -> None:
        """File this thread's job under `route` from now on; its present phase becomes that route's first. May wait."""

    def pin(self, route: str, weight: str) -> None:
        """Pin a route as "heavy" or "light"; "auto" unpins. Raises ValueError for anything else."""

    def active(self) -> bool:
        """Whether this thread runs a job."""

    def deadline_ns(self) -> int:
        """When this thread's job is due; 0 = no job, or no deadline."""

    def remaining_ms(self) -> int | None:
        """Milliseconds until then, 0 when past; None = no job, or no deadline."""

    def mode(self, route: str | None = None) -> str:
        """Give the mode of the process, or of one route: "on", "observe" or "off"."""

    def set_mode(self, mode: str, route: str | None = None) -> None:
        """Switch live. Anything but "on" lets those whom it concerns go. "inherit" makes a route follow the process."""

    def forked(self) -> None:
        """Call in a forked child: counters begin anew, the switch interval is restored. Permits are its own anyway."""

    def set_permits(self, permits: int) -> None:
        """Change the number of permits; fewer take effect as holds end."""

    def pressure(self) -> tuple[int, int]:
        """(phases that hold a permit, phases that wait for one) now."""

    def counters(self) -> list[tuple[str, int]]:
        """(name, value) of each counter; `greenlane.metrics` says what they mean."""

    def learned(self) -> list[tuple[str, str, list[tuple[int, list[int], int, int, int, int, str]]]]:
        """(route, pin, rows); a row is (phase, weights, mean ns, samples, looks, free looks, weight)."""

    def restore(
        self, route: str, phase: int, *, weights: list[int], mean_ns: int, samples: int, looks: int, free: int
    ) -> None:
        """Put back a row of `learned`."""

@final
class Paused:
    """A job between two threads or two chunks of a response. Dropping it ends the job."""

    def resume(self) -> bool:
        """Go on with the job on this thread; its next phase begins and may wait. False if the thread has one."""

@final
class Lock:
    """Drop-in for `threading.Lock()` that counts for its thread and ends the phase when an acquire has to wait.

    Cost: about 0.1 us an uncontended acquire and release over the original.
    """

    def __new__(cls) -> Lock: ...
    def acquire(self, *args: Any, **kwargs: Any) -> bool: ...
    def release(self) -> None: ...
    def locked(self) -> bool: ...
    def acquire_lock(self, *args: Any, **kwargs: Any) -> bool: ...
    def release_lock(self) -> None: ...
    def locked_lock(self) -> bool: ...
    def __enter__(self) -> bool: ...
    def __exit__(self, *_exception: Any) -> None: ...
    def _at_fork_reinit(self) -> None: ...

@disjoint_base
class RLock:
    """Drop-in for `threading.RLock()`; as `Lock`."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> RLock: ...
    def acquire(self, *args: Any, **kwargs: Any) -> bool: ...
    def release(self) -> None: ...
    def locked(self) -> bool: ...
    def __enter__(self) -> bool: ...
    def __exit__(self, *_exception: Any) -> None: ...
    def _is_owned(self) -> bool: ...
    def _recursion_count(self) -> int: ...
    def _release_save(self) -> tuple[int, int]: ...
    def _acquire_restore(self, state: tuple[int, int]) -> None: ...
    def _at_fork_reinit(self) -> None: ...

def locks_held() -> int:
    """Tracked locks that the calling thread holds."""

@final
class PermitQueue:
    """Core's permit queue by itself, for property tests against a Python twin. Changes give the tickets granted."""

    def __new__(cls, permits: int, discipline: str, ageing_ns: int) -> PermitQueue: ...
    def request(self, now_ns: int, ticket: int, arrival_ns: int, deadline_ns: int, expected_ns: int) -> bool: ...
    def release(self, now_ns: int, ticket: int) -> list[int]: ...
    def cancel(self, now_ns: int, ticket: int) -> list[int]: ...
    def lend(self, now_ns: int, ticket: int) -> list[int]: ...
    def set_permits(self, now_ns: int, permits: int) -> list[int]: ...
    def holders(self) -> int: ...
    def waiting(self) -> int: ...
    def expected_ns(self) -> int: ...

@final
class BurstSketch:
    """Core's burst histogram by itself, likewise."""

    def __new__(cls) -> BurstSketch: ...
    def update(self, burst_ns: int) -> None: ...
    def forget(self, halvings: int) -> None: ...
    def quantile_ns(self, quantile: float) -> int: ...
    def mean_ns(self) -> int: ...
    def samples(self) -> int: ...
    def weights(self) -> list[int]: ...
