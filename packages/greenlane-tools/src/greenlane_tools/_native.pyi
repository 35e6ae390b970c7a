"""The native module of what runs outside of services: the manual of its seam.

Times are integer nanoseconds of `time.monotonic_ns()` unless a name says otherwise. What takes long runs without the
GIL, and says so.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

__all__ = ["Recording", "core_loop_ns", "load_run", "simulate"]

@final
class Recording:
    """A recording after accounting. Lists hold tuples in the field order of `greenlane_tools.reader.rows`.

    Making one reads and accounts for all of it, without the GIL: about a second a million events.
    """

    def __new__(
        cls,
        source: bytes | Sequence[str | PathLike[str]],
        from_ns: int = 0,
        to_ns: int = 2**64 - 1,
        *,
        part_bytes: int | None = None,
    ) -> Recording:
        """Read what is in `source`, or in the files that it names; each holds chunks of any processes in any order.

        Args:
            from_ns: first moment, monotonic; only what was written from then on, to a fifth of a second.
            to_ns: likewise the last one.
            part_bytes: this much of a process is laid out at a time, and nothing kept of it; None: 8 MB, of recordings
                over 48 MB.

        Raises: ValueError with the arguments (what, version): what is "empty", "foreign", "newer" (than we read:
        `version`), "damaged": no chunk is whole, or "outside": none is between the two moments. OSError if a file
        cannot be read.
        """

    def processes(
        self,
    ) -> list[tuple[tuple[int, int, str, int, int, int, int], tuple[int, int, int, int], list[tuple[int, str]]]]:
        """(Process with `about` as JSON, counts, marks) of each process. A mark is (when, what).

        The counts: chunks deleted before the first that is there, chunks missing between, jobs without their begin or
        end, units without their begin.
        """

    def skipped(self) -> dict[str, int]:
        """What could not be read: damaged_chunks, damaged_bytes, newer_chunks, unknown_records, repeated_chunks."""

    def jobs(self) -> list[tuple[Any, ...]]:
        """Give a Job for each job whose begin and end are there, by arrival. Once: then they are forgotten."""

    def blame(self) -> list[tuple[str, str, str, int, int, int, int, int, list[int]]]:
        """Give a Blame for each (victim, kind, culprit, phase), most ns first."""

    def calls(self) -> list[tuple[int, int, str, str, str, int, int, int, int, str, int, int]]:
        """Give a Call for each call of an upstream, by begin. Once, too."""

    def held(self, loops: bool) -> list[tuple[str, str, str, int, int, int]]:
        """Give a Held for each (route, call, stack), most ns first: calls that kept a loop, or a thread."""

    def unfinished(self) -> list[tuple[Any, ...]]:
        """Give an Unfinished for each job in progress at the end of its process, those that ran first."""

    def costs(self) -> list[tuple[int, int, int, int, int, int]]:
        """Give (process, at, events, ns a thousand of them, writer's ns, sampler's ns) as each process said last."""

    def stacks(self) -> list[tuple[str, str, int, int, int, int]]:
        """Give a Stack for each (culprit, stack), most ns first."""

    def own(self) -> list[tuple[int, int, str, str, int, int]]:
        """Give an Own for each (job, stack) at which the job was seen computing, by process and job."""

    def turns(self) -> list[tuple[str, int, int, int, int, int, int]]:
        """Rows of `rows.Turns`."""

    def resources(self) -> list[tuple[tuple[str, str, int, int, int, int, int], list[Any], list[Any]]]:
        """Give the fields of a Resource, of its ResourceVictims and of its ResourceHolders, for each resource."""

    def looks(self) -> list[tuple[int, int, int, int, int]]:
        """Give a Look for each job that was looked at while it computed, by process and job."""

    def samples(self) -> list[tuple[int, int, int, int, int, int, int, int, int, int, int]]:
        """Give a Sample for each second of each process, by time."""

    def segments(self, process: int, job: int) -> list[tuple[str, str, int, int, str, str]] | None:
        """Give the Segments of one job, by begin; None = there is no such job, or its begin or end is missing."""

    def culprits(self, process: int, job: int, from_ns: int, to_ns: int) -> list[tuple[str, int]]:
        """Say who made a job wait between two moments: (culprit, ns), most first; empty if it is not whole."""

def simulate(
    profile_json: bytes,
    set_up_json: bytes,
    jobs: int,
    seed: int,
    load: float = 1.0,
    *,
    tick: Callable[[float], object] | None = None,
) -> bytes:
    """Simulate a profile under a set-up: what each route's latency would be. Deterministic.

    Blocks until `jobs` requests have ended, on this thread and without the GIL; takes it every 50 ms to look for
    signals and to call `tick(part done)`. What either raises ends the run. Requests that come before the counted ones
    (a tenth, at most 200,000) fill the service; those that were recorded, and come `once`, all count.

    Both arguments and the answer are JSON; `plan.simulation` is their typed face and says what they hold.
    `seed` and the profile alone decide which requests come and what they do: two set-ups meet the very same ones.
    `load`: how many times the profile's rates come.

    Raises: ValueError with the arguments (what, value, rule) for what cannot be simulated.

    Cost: 0.1 to 1 us a request where it only computes; 1 to 2 us where permits are asked for.
    """

def load_run(
    streams: Sequence[tuple[str, bytes, bytes, bytes, bool, bool, int, int]],
    at_ns: bytes,
    stream: bytes,
    work_ms: bytes,
    *,
    worker_header: str = "",
    tick: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Send requests when they are due and wait for their answers: the lab's open-loop generator over HTTP/1.1.

    Blocks until each request was answered, failed, or given up, on this thread and without the GIL; takes it every
    50 ms to look for signals and to call `tick(sent, over)`. What either raises ends the run. Raises the process's
    limit of open files to its hard limit.

    A stream is (address, before, mark, after, head_only, keep_alive, most_connections, timeout_ns): "host:port" or
    "unix:/path"; the request is `before`, then `mark` and the amount of work if that is more than 0, then `after`;
    whether it is a HEAD; whether connections are used again, and at most how many (0 = as many as needed); how long to
    wait, from the scheduled send. The schedule is three columns of one length in the machine's own bytes, by time:
    int64 ns from the start, uint16 number of the stream, float64 amount of work.

    Gives columns as bytes in the schedule's order, times in ns from the start, 0 = never: begun_ns (when the generator
    turned to it), sent_ns, first_byte_ns, done_ns (int64), status (int16: HTTP's, 0 = failed, -1 = not answered in
    time), worker (int32, the number in the header named `worker_header`, 0 = none). And numbers: began_ns
    (`time.monotonic_ns()` at the start), cpu_ns of this thread, took_ns, connections opened, sent_again (its kept
    connection turned out to be closed), and failures by reason.

    Raises: ValueError with the arguments (what, value, why) for an address or a schedule that cannot be; OSError with
    errno EMFILE if open files run out, EADDRNOTAVAIL if local ports do, ENOSYS before Linux 5.11.

    Cost: 10 to 15 us of CPU a request over kept connections, 50 us over new ones.
    """

def core_loop_ns() -> int:
    """What a loop of fixed work takes on this thread now, by its CPU clock: the `loop_ns` of a recording's samples.

    Cost: 0.06 ms of CPU, without the GIL.
    """
