"""The native module of what runs outside of services: the manual of its seam.

Times are integer nanoseconds of `time.monotonic_ns()` unless a name says otherwise. What takes long runs without the
GIL, and says so.
"""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, final

__all__ = [
    "OpenQueue",
    "Recording",
    "closed_bounds",
    "closed_means",
    "closed_number",
    "hard_lane",
    "load_run",
    "shared_latency",
    "simulate",
    "waits_frac",
]

@final
class Recording:
    """A recording after accounting. Lists hold tuples in the field order of `greenlane_tools.reader.rows`.

    Making one reads and accounts for all of it, without the GIL: about a second a million events.
    """

    def __new__(cls, source: bytes | Sequence[str | PathLike[str]]) -> Recording:
        """Read what is in `source`, or in the files that it names; each holds chunks of any processes in any order.

        Raises: ValueError with the arguments (what, version): what is "empty", "foreign", "newer" (than we read:
        `version`), or "damaged": no chunk is whole. OSError if a file cannot be read.
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
        """Give a Job for each job whose begin and end are there, by arrival."""

    def blame(self) -> list[tuple[str, str, str, int, int, int, int, int, list[int]]]:
        """Give a Blame for each (victim, kind, culprit, phase), most ns first."""

    def calls(self) -> list[tuple[int, int, str, str, str, int, int, int, int, str, int, int]]:
        """Give a Call for each call of an upstream, by begin."""

    def held(self) -> list[tuple[str, str, str, int, int, int]]:
        """Give a Held for each (route, call, stack), most ns first."""

    def unfinished(self) -> list[tuple[Any, ...]]:
        """Give an Unfinished for each job in progress at the end of its process, those that ran first."""

    def costs(self) -> list[tuple[int, int, int, int, int, int]]:
        """Give (process, at, events, ns a thousand of them, writer's ns, sampler's ns) as each process said last."""

    def stacks(self) -> list[tuple[str, str, int, int]]:
        """Give a Stack for each (culprit, stack), most ns first."""

    def looks(self) -> list[tuple[int, int, int, int, int]]:
        """Give a Look for each job that was looked at while it computed, by process and job."""

    def samples(self) -> list[tuple[int, int, int, int, int, int, int, int, int]]:
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

def closed_bounds(cpu: float, io: float, number: int) -> tuple[float, float, float]:
    """(knee, most, least) of `number` requests in progress that take turns on one CPU: core's `theory.asymptotes`.

    This and the following functions take times of any one unit and give rates in its inverse. The knee is inf without
    CPU, the most inf without any work. Raises ValueError: a time that is negative or not finite.
    """

def closed_means(cpu: float, io: float, number: int) -> tuple[float, float, float]:
    """(rate, latency, utilisation) with `number` (at least 1) in progress: exact mean value analysis of one CPU with
    exponential bursts and a delay of any distribution. Cost: some ns times `number`."""

def closed_number(cpu: float, io: float, busy: float, most: int) -> int:
    """The smallest number in progress with which that CPU works the share `busy` of the time, at most `most`: what
    `AtOnce` sets."""

def waits_frac(offered: float, servers: int) -> float:
    """Erlang's C: the share of requests that wait for one of `servers` where `offered` are busy on average."""

def shared_latency(size: float, utilisation: float) -> float:
    """The mean latency of a request of `size` where all share one server evenly; inf from a utilisation of 1 on."""

@final
class OpenQueue:
    """Requests that come as they like (Poisson), and wait first come first served for one of some like servers.

    Core's `theory.waiting`, and for one server `theory.fifo`. From a utilisation of 1 on waits are inf. Any thread may
    call.
    """

    def __new__(cls, *, rate: float, servers: int, mean: float = 0.0, times: Sequence[float] = ...) -> OpenQueue:
        """Raises ValueError. Cost: with one server and `times` up to 0.2 s; the GIL is released.

        Args:
            rate: of arrivals.
            servers: at least 1.
            mean: of exponential times with a server; not looked at where there are `times`.
            times: with a server, each as likely as any other.
        """

    def utilisation(self) -> float:
        """Share of the time that a server works, or would."""

    def cv2(self) -> float:
        """Variance of the times with a server over their mean's square."""

    def waits_frac(self) -> float:
        """Share that waits at all."""

    def wait(self) -> float:
        """Mean wait."""

    def exact(self) -> bool:
        """Whether the percentiles are exact (one server up to a grid, exponential times); else the tail is taken as
        exponential."""

    def wait_beyond(self, time: float) -> float:
        """Share of waits beyond `time`."""

    def latency_beyond(self, time: float) -> float:
        """Share of latencies (wait and time with the server) beyond `time`."""

    def wait_quantile(self, share: float) -> float:
        """The wait that a share of 1 - `share` exceeds. Cost: 50 us, with `times` some ms; the GIL is released."""

    def latency_quantile(self, share: float) -> float:
        """The latency that a share of 1 - `share` exceeds. Cost as `wait_quantile`."""

def hard_lane(processes: int, own: int, share: float) -> tuple[float, float]:
    """(others, lane): the utilisation of all `processes` at which those without a lane are full, and at which its `own`
    are, where its class has the share `share` of all work. inf: never. Raises ValueError."""
