"""Greenlane's native module: the manual of the seam.

Times are integer nanoseconds of `time.monotonic_ns()` unless a name says otherwise. Nothing here blocks with the GIL
held; what waits says so. Everything is safe to call from any thread, and on free-threaded builds.
"""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from os import PathLike
from types import CodeType, FrameType
from typing import Any, Final, Literal, Protocol, final

__all__ = [
    "HeavyRouteLane",
    "WorkerConcurrency",
    "CallProfile",
    "CollectionTime",
    "ControlSocket",
    "Descriptor",
    "GangChoice",
    "GilLooks",
    "Health",
    "KeyStatus",
    "NEWEST_PYTHON",
    "Paused",
    "PermitQueue",
    "Permits",
    "Recorder",
    "Resource",
    "Shed",
    "StalledThreads",
    "Start",
    "Steps",
    "Switches",
    "UpstreamTotals",
    "Upstreams",
    "__version__",
    "blocking_put_back",
    "blocking_report_all",
    "blocking_see",
    "blocking_within",
    "call_in_main_thread",
    "calls_install",
    "calls_rescan",
    "calls_state",
    "calls_uninstall",
    "current_frames",
    "die_with_parent",
    "gang_join",
    "gang_see",
    "gang_shown",
    "gang_start",
    "gang_stop",
    "guard_endings",
    "hand_over",
    "lead_to",
    "listen_to",
    "locks_held",
    "readable_now",
    "rearm_now",
    "recv_now",
    "sampler_start",
    "sampler_stop",
    "send_at_once",
    "send_now",
    "stop_listening",
    "threads_heavy",
    "threads_learn_share",
    "threads_nearly_full",
    "threads_next_queue",
    "unseen_method",
]

__version__: Final[str]
#: The newest CPython whose private structures are known: (major, minor). On a later one no wait for the GIL is seen.
NEWEST_PYTHON: Final[tuple[int, int]]

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
        heavy_ns: int,
        quantile: float,
        margin: float,
        learn_after: int,
        max_routes: int,
        max_phases: int,
        wait_max_ns: int,
        share_ns: int,
        interval_s: float,
        mode: str,
        permits_with_gil: int = 1,
        late_error: Callable[[], BaseException] | None = None,
    ) -> Permits:
        """Make permits; `greenlane.policy.PermitRule` says what each value means.

        `permits_with_gil` holds once an import has switched the GIL of a free-threaded build on.
        `late_error` makes what blocking calls of late jobs raise; None = they never do.
        """

    def open(self, arrival_ns: int, deadline_ns: int = 0, route: str | None = None) -> bool:
        """Open a job on this thread and begin its first phase, which may wait (bounded, without the GIL) for a permit.

        False, and nothing happens: the thread has a job already (this one belongs to it), or the mode is off.
        `deadline_ns` 0 = none. `route` None = not known yet: the job runs free until `name`.
        """

    def read_requests(
        self,
        *,
        deadlines: Sequence[str],
        due: Callable[[Mapping[str, object], int], int],
        always: bool,
        shape: Callable[[str, str], str],
    ) -> None:
        """Say how `open_request` reads requests; the first word counts.

        Args:
            deadlines: keys of the environ under which a deadline may stand.
            due: gives when a request is due by its environ and arrival, ns; 0 = never. Called where a key is there,
            always: or for each request.
            shape: names a route by method and path; called until a job has been named by `name`.
        """

    def open_request(self, environ: dict[str, Any], arrival_ns: int = 0) -> bool:
        """Open a job for a WSGI request, see `open`; `arrival_ns` 0 = it arrives now.

        Cost: about 1 us, 0.05 us where the mode is off.
        """

    def close(self) -> tuple[int, int, int, int, int] | None:
        """End this thread's job: (CPU ns, permit wait ns, CPU ns after the deadline, phases, heavy phases).

        None without one. A phase is heavy here if it was expected to be, or charged because it was.
        """

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
        """Switch live. Anything but "on" releases the affected waiters. "inherit" makes a route follow the process."""

    def forked(self) -> None:
        """Call in a forked child: counters start over, the switch interval is restored. Permits are its own anyway."""

    def linger(self, lingers: bool) -> None:
        """Keep the interval short between two holders (True), until called with False. Cost: 50 ns.

        Who wakes in such a gap waits for the GIL by the interval that it finds: by 5 ms, and the next holder has it.
        """

    def pressure(self) -> tuple[int, int]:
        """(phases that hold a permit, phases that wait for one) now."""

    def counters(self) -> dict[str, int]:
        """Give the counters by name; `greenlane.metrics` says what they mean."""

    def turns(self) -> dict[str, dict[str, int]]:
        """Give by route what its heavy phases got, gain and pay, if any; `greenlane.metrics` says what they mean."""

    def learned(self) -> list[tuple[str, str, list[tuple[int, int, int, int, int, str]]]]:
        """(route, pin, rows); a row is (phase, mean ns, samples, looks, free looks, weight).

        A phase is known by the place where it begins: the Python functions that made the blocking call before it, and
        where in them.
        """

@final
class Paused:
    """A job between two threads or two chunks of a response. Dropping it ends the job."""

    def resume(self) -> bool:
        """Go on with the job on this thread; its next phase begins and may wait. False if the thread has one."""

def blocking_see(
    callable: object,
    rule: str,
    kind: int,
    at: int = 0,
    name: str | None = None,
    mask: int = 0,
    asks: Sequence[object] = ...,
) -> None:
    """Have every call of a C function seen, by whatever name it is called: its method table leads to us from now on.

    `rule` says when a call can block, and ends the phase (`greenlane.phase`); `at` and `name` are the argument that it
    looks at, `asks` methods that it calls unseen. `greenlane.probes.native` explains them. Threads without a job, and
    other interpreters, pass through. Cost: some 5 ns there.

    Raises: ValueError with the reason, when the function or its table is not what is known of CPython's.
    """

def blocking_put_back() -> None:
    """Put every method table back as it was. Idempotent."""

def listen_to(function: object, listener: Callable[..., object], *, after: bool = False) -> None:
    """Call `listener` with the arguments of each call of the C function `function`, before it or after it.

    What it raises is dropped. After a call that has failed it is not called. The listener of the first time stays.
    Calls of other interpreters are not told. Raises: ValueError: not a C function, or of an unknown shape.
    """

def lead_to(function: object, callable: Callable[..., Any]) -> None:
    """Have `callable` called instead of `function`, with what a method is for before its arguments.

    `function` is a C function, a method of a C class or a function of Cython. It stays the object that it is: only its
    method table changes, and by whatever name it is called. Once `stop_listening` has put that back, the `callable` of
    the first time goes on. What `Switches.lead` and `Steps.hook` make is not called: its native code sees the call.

    Raises:
        ValueError: as of `listen_to`.
    """

def unseen_method(cls: type, function: object) -> Callable[..., Any]:
    """Give a method of `cls` that does what `function`, one of its methods in C, did before it led to us.

    Keeps 32 bytes for good. Raises ValueError as of `listen_to`.
    """

def threads_nearly_full(most: int) -> int:
    """With this many busy threads of `most`, one more request may have to wait: core's `threads`, as the next three."""

def threads_next_queue(most: int, busy: int, light: int | None, heavy: int | None, waiting: int) -> bool | None:
    """Whether the next thread of a pool is for the first heavy request that waits; False = for the first light one.

    None = nobody waits, or there is no thread for it. `light`, `heavy`: when the first of each came, by any count;
    `waiting`: phases that wait for a permit. Cost: 0.1 us.
    """

def threads_learn_share(share: float | None, asked: bool) -> float:
    """The share of a path's requests that asked for a permit, with one more; None = there was none before."""

def threads_heavy(share: float) -> bool:
    """Whether a request is expected to ask for a permit, by its path's share."""

def stop_listening(function: object) -> None:
    """Put back what `listen_to` or `lead_to` has changed. Idempotent; calls under way end as they began."""

def blocking_report_all(all_threads: bool) -> None:
    """Whether calls of threads without a job of the permits are reported, too."""

def blocking_within(code: CodeType, kind: int) -> None:
    """Waits that `code` has called are for `kind`; the outermost known caller of the last 8 counts."""

def recv_now(fd: int) -> bytes:
    """Read what has come on a socket, at most 16 KiB, without releasing the GIL. Never blocks.

    For threads that would lose the GIL for a call of 2 us: `socket.recv` releases it even when it cannot block. No
    probe sees it. Raises: OSError; BlockingIOError if nothing has come.
    """

def send_now(fd: int, data: bytes) -> int:
    """Write what fits into a socket's buffer, as `recv_now`; how many bytes that were. Keep `data` small: it is copied.

    Raises: OSError; BlockingIOError if nothing fits.
    """

def send_at_once(socket: object, data: bytes) -> int:
    """As `send_now`, for a blocking socket's own calls: 0 = use them, nothing was sent: its buffer is full, it is not a
    `socket.socket` of AF_INET, AF_INET6 or AF_UNIX, `data` is empty or over 16 kB, this thread has no job or its
    route's mode is not on, or a recording goes on, which sees only the interpreter's calls.

    Cost: 0.2 us and the system call. Raises: OSError, and SIGPIPE where the interpreter's call would.
    """

def readable_now(fd: int) -> bool:
    """Whether a descriptor can be read, or a listening socket has somebody waiting; as `recv_now`. Raises: OSError."""

def rearm_now(epoll_fd: int, fd: int, events: int, *, known: bool = True) -> None:
    """Change what an epoll set reports of a descriptor, as `recv_now`; with `known` false the set gets it, with no
    `events` it loses it. Raises: OSError.
    """

def locks_held() -> int:
    """Tracked locks that the calling thread holds."""

def call_in_main_thread(call: Callable[[], None]) -> bool:
    """Have it called on the main thread as soon as that runs Python code, between two instructions.

    What it raises is dropped. False = it will not be: too many such calls wait.
    """

def calls_install(*, stamps: bool = True) -> str:
    """See libc's blocking calls where they are called, by any object of this process: how long each blocked.

    Gives "" or why not: then everything is as before, and recording goes on with bounds instead of exact times. Again:
    finds what was loaded since. `stamps`: ask the kernel when the bytes on TCP sockets came, too.

    What the application sees stays the same: results, errors, ancillary bytes. Calls of threads that record nothing are
    only passed on.

    Cost: about 2 ms once; a call 2 ns while nothing is recorded, about 110 ns on a thread that is, 300 ns with a stamp.
    """

def calls_rescan() -> None:
    """Find objects that were loaded since. The recorder's writer does it 5 times a second. Cost: 1 us without any."""

def calls_uninstall() -> None:
    """Put everything back as it was. Idempotent."""

def guard_endings() -> int:
    """Let threads that want the GIL after the interpreter's end hang, where unwinding them would break the process.

    Those with our frames or greenlet's on their stack; others end as ever. Registered with `atexit`, on CPython
    before 3.14, which does so by itself, by the first `Permits`, `blocking_see`, `Recorder.start`, `Switches.install`,
    `Steps.hook`, `calls_install` or `sampler_start`; never by importing. Gives how many of the interpreter's calls lead
    to us; 0 = none was found, and all is as before. Cost: some 0.2 ms at the exit.
    """

def calls_state() -> dict[str, Any]:
    """What is seen: `installed`, `why` not; `objects` and `slots` (places that hold an address) that lead to us.

    `foreign`: slots that lead to somebody else's redirection, left alone. `unfinished`: to be tried again. `failed`:
    pages that could not be written. `sockets` stamped so far, `stamps` read, sockets `given_up` because the application
    reads ancillary bytes itself. `samples` of culprits' stacks, and `samples_late`: the culprit had stopped by then.
    """

def sampler_start(*, stacks: bool = True, began: Callable[[], object] | None = None) -> None:
    """Let a native thread look at culprits' stacks while somebody waits: with the recording's first event, or now.

    It takes the GIL every 20 ms while a job's thread has waited for it, or for a lock, for 5 ms, or a loop's slice that
    keeps others lasts for 10 ms. Stops by itself at exit. A forked child's starts with its first event.

    `stacks` False, or a free-threaded build: it looks at none, and ends after `began`. `began`: called by the thread
    before anything else, once a process; what it raises is dropped. The first one that is given counts.
    """

def sampler_stop() -> None:
    """End it, and wait (without the GIL) until it is gone. Idempotent."""

@final
class ControlSocket:
    """A Unix socket for its owner alone, answered by native threads of this process; gone in forked children.

    One thread listens: the program's table of descriptors does not have the socket (on Linux before 5.9 it does, and
    the program may close it). The other one answers, and takes the GIL for that only. Both block all signals.
    """

    def __new__(cls, path: str, longest: int, answer: Callable[[bytes | None], bytes]) -> ControlSocket:
        """Make it, in the place of whatever file is there, and answer.

        Args:
            path: absolute; its folder is there.
            longest: bytes of a request.
            answer: called with the line that a client sent; None = it was too long. No reply is sent if it raises.

        Raises:
            OSError: it cannot be made.
            RuntimeError: no thread can be started.
        """

    def is_own(self) -> bool:
        """Whether this process made it, and not its parent."""

    def stop(self) -> None:
        """End the threads and remove the file, if it is still that; waits for an answer under way. Idempotent."""

@final
class Descriptor:
    """One of our descriptors under a high number, closed by `exec` and in forked children.

    The program may close it without asking, and use the number again. Forgetting the object closes nothing.
    """

    def __new__(cls, fd: int) -> Descriptor:
        """Take a descriptor over."""

    def fileno(self) -> int:
        """Give its number now."""

    def is_ours(self) -> bool:
        """Whether it is still what it was. Cost: 0.4 us."""

    def close(self) -> None:
        """Close it, unless the program has done so. Idempotent."""

@final
class Recorder:
    """The recorder of this process: each instance is a face of the same one. Everything is a cheap no-op when off.

    "This unit" is what runs on the calling thread: the thread itself, or the greenlet or task that its loop runs now.

    Cost: 30 to 60 ns an event; the CPU clock of the thread is read for slices over 0.25 ms, 0.2 to 0.6 us.
    """

    def __new__(cls) -> Recorder: ...
    def start(self, folder: str | PathLike[str], *, max_bytes: int, about: str, keep_s: int = 0) -> None:
        """Record into `folder` from now on, here and in forked children. Running already: nothing.

        Each process opens its file and starts its native writer with its first event or poll; a child that executes
        another program has neither. `max_bytes`: of all files in the folder; the oldest are deleted, and
        those older than `keep_s` (0 = for ever; an eighth later at most). `about`: JSON that
        describes the process, except "pid", "parent_pid", "started_ns" and "started_unix_ns".

        Raises: OSError if the folder cannot be written to.
        """

    def stop(self) -> None:
        """Write what there is and end; waits up to 5 s without the GIL. Idempotent."""

    def on(self) -> None:
        """Go on after `off`. Nothing before `start`."""

    def off(self) -> None:
        """Record nothing until `on`. What was recorded is kept."""

    def flush(self) -> None:
        """Wait, without the GIL, until what has happened so far is in the file, at most 5 s."""

    def recording(self) -> bool:
        """Whether events are written down now."""

    def leave(self, kind: int) -> None:
        """Take note that this unit is about to block; see `greenlane.phase`."""

    def enter(self) -> None:
        """Answer `leave`."""

    def name(self, route: str) -> None:
        """Name the route of this unit's job."""

    def handler(self, route: str, function: object) -> None:
        """Note where the application's function for a route begins. Once a route: each time is an event."""

    def pin(self, route: str, weight: str) -> None:
        """Do nothing: a recorder has no opinion."""

    def open(
        self,
        *,
        arrival_ns: int = 0,
        spawn_ns: int = 0,
        deadline_ns: int = 0,
        clock: str = "handler",
        host: str = "",
        parent_job: int = 0,
    ) -> int:
        """Open a job of this unit, and give its number. 0 = off, or it has one already: do not close that.

        `arrival_ns` 0 = now. `clock`: what it was read from. `spawn_ns`, `deadline_ns` 0 = none.
        """

    def close(self, job: int, status: int = 0) -> None:
        """End a job, from whatever unit. 0: nothing."""

    def job(self) -> int:
        """Give the job of this unit; 0 = none."""

    def attach(self, job: int) -> int:
        """Let this unit work for `job` from now on (0 = none), and give the one before."""

    def arrival(self, fd: int) -> tuple[int, str]:
        """When the bytes came that were read last from an accepted connection, by whomever: (ns, clock).

        That is when its request came: call it where the request's head is whole and before more is read. The clock is
        "kernel" (its stamp) or "accept" (when they were read; the first ones: when the connection was accepted).
        (0, "handler") = unknown: no such descriptor, another process has accepted it, or they were read while nothing
        was recorded.
        """

    def arrival_from(self, peer: str, port: int) -> tuple[int, str]:
        """Likewise for the connection from a peer's address, which has no descriptor in Python.

        `peer` as `ipaddress` writes it. Unknown, too, if a later connection came from the same port of another address.
        """

    def call(
        self,
        from_ns: int,
        ready_ns: int,
        to_ns: int,
        deadline_ns: int,
        upstream: str,
        operation: str,
        outcome: int,
        own_ns: int = 0,
    ) -> None:
        """Write down a call of an upstream. `ready_ns`, `deadline_ns` 0 = none. `outcome`: 0 ok, 1 error, 2 timeout.

        `own_ns`: how long it took by the upstream's own clock; 0 = unknown.
        """

    def traced(self, trace_high: int, trace_low: int, span: int) -> None:
        """Write down that this unit's job is a span of a trace, whose 128 bits are given in halves. No job: nothing."""

    def waited(self, kind: str, from_ns: int, to_ns: int) -> None:
        """Write down a wait of this unit: `gil`, `loop`, `permit`, `accept`, `lock`, `pool` or `os`.

        It is laid over the unit's blocks: a block on a pool's lock becomes a wait of the kind pool.
        """

    def parked(self, job: int, from_ns: int, to_ns: int, by: str) -> None:
        """Write down that a job was held back before it was opened, and what held it: `limit KEY`, `breaker KEY` …"""

    def unit_totals(self) -> tuple[int, int, int, dict[str, int]]:
        """Give (number, CPU, I/O, waits by kind) of this unit since it began, ns; all 0 when off.

        Running sums of this unit alone, children are not in it; what a recording says of a job is exact.
        """

    def io_ready_ns(self) -> int:
        """When this unit's I/O last became ready; 0 = never."""

    def collected(self, phase: str, about: dict[str, int]) -> None:
        """Take note of the garbage collector: a member of `gc.callbacks`."""

    def mark(self, what: str) -> None:
        """Write down something that a reader should know."""

    def describe(self, about: str) -> None:
        """Replace the JSON that `start` was given: something of the process has changed. Written within 0.2 s."""

    def stats(self) -> dict[str, Any]:
        """Give counters: on, running, events, lost, written_bytes, failed, error, process, jobs, in_progress, …

        `oldest_ns`: when the oldest job in progress arrived, 0 = none.
        `busy_ns`: CPU of all slices. `by_lag`: latenesses by power of two of 1 us, `lag_ns`: their sum.
        """

    def live(self) -> list[tuple[str, int, int, int, int, int, list[int], int]]:
        """Give sums by route since the start: (route, jobs, latency, CPU, I/O, wait in ns, jobs by latency, failed).

        Index i of the last but one counts jobs of up to 2**(i/4) us.
        """

def gang_start(cores: Sequence[int], always: bool, cache: PathLike[str] | None) -> None:
    """Let threads that run jobs keep to one of `cores` (the process' own, preferred ones first) from now on.

    While that pays and no other process needs the core; with `always`, whether it pays or not. Our thread decides,
    which never takes the GIL: the second thread that runs a job starts it. `cache`: where the cost of a hand-over is
    kept for other processes. Idempotent.
    """

def gang_stop(watch: bool = False) -> None:
    """Let every thread use all cores again, and see no function; with `watch`, our thread goes on seeing who computes
    without the GIL. Waits, without the GIL, some ms for its end.
    """

def gang_join() -> None:
    """Let the calling thread keep to the core as one that runs jobs."""

def gang_shown() -> tuple[int | None, str]:
    """Give the core in force, and why there is none ("" = nobody has decided)."""

def gang_see(callable: object, rule: str) -> None:
    """See a C function's calls, as `blocking_see` does. "starts": threads and programs that it starts use all cores;
    "asks": it gives the cores of a thread, all for one that keeps to one; "chooses": it sets them, and they stay so.

    Raises:
        ValueError: it is none that can be seen.
    """

def hand_over(cache: PathLike[str] | None, cores: Sequence[int]) -> tuple[int, int, bool] | None:
    """Give what waking a thread on another thread's core costs, and on another core, in ns, and whether one core pays.

    What this process knows, or `cache`; else it is measured on two of `cores`, some 35 ms without the GIL. None: there
    are fewer.
    """

@final
class GangChoice:
    """The choice of a core by itself; see `greenlane_policy::gang`. Not for two threads at once."""

    def __new__(cls, always: bool) -> GangChoice: ...
    def look(self, cores: Sequence[tuple[int, float, float, bool]]) -> int | None:
        """Take in a look, one a second: of each core (number, what others use of it, what the gang does, whether no
        other gang has it). Give the core to keep to; None = all.
        """

    def glance(self, cores: Sequence[tuple[int, float, float, bool]]) -> int | None:
        """Take in a glance at the cores in between, of a quarter of a second; likewise."""

    def disband(self) -> None:
        """There is no gang from now on: the core could not be had."""

@final
class Resource:
    """Something with places that units wait for, such as a pool of connections: who waits, who holds one meanwhile.

    Nothing is written down while nobody waits. Cost: a `take` and its `give` 1 us, of which most is the way up to the
    application's frame.
    """

    def __new__(cls, kind: str, describe: Callable[[], tuple[str, int]]) -> Resource:
        """`kind`: connections, threads, semaphore, lock, processes. `describe` gives (name, places), after a wait."""

    def ask(self) -> int:
        """This unit wants a place: since when, ns; 0 = nothing is recorded. `take`, `run` or `fail` answers it."""

    def take(self, key: int, asked_ns: int, frame: FrameType | None = None) -> None:
        """This unit has a place, which `key` names until `give`. Its wait was its last one of the kind pool since then.

        `frame`: where to look for the application's frame if the thread's own have none. `asked_ns` 0: nothing.
        """

    def run(self, key: int, asked_ns: int, function: object) -> None:
        """The same for `function`, which has waited since then for a thread and runs now. 0: it did not wait.

        `function` may be a number that `line` has given.
        """

    @staticmethod
    def line() -> int:
        """Give a number for the line of the application that calls; 0 = there is none."""

    def fail(self, asked_ns: int, frame: FrameType | None = None) -> None:
        """This unit gives up. `asked_ns` 0: nothing."""

    def give(self, key: int) -> None:
        """The place is free again. Any thread may call it. An unknown key: nothing."""

    def holds(self) -> int:
        """How many places are known to be taken."""

@final
class PermitQueue:
    """Core's permit queue by itself: the order of the native thread's calls. Changes give the tickets granted.

    Not for two threads at once: callers hold a lock of their own.
    """

    def __new__(cls, permits: int) -> PermitQueue: ...
    def request(
        self,
        now_ns: int,
        ticket: int,
        arrival_ns: int,
        deadline_ns: int,
        expected_ns: int,
        attained_ns: int = 0,
        long_ns: int = 0,
    ) -> bool: ...
    def release(self, ticket: int) -> list[int]: ...
    def cancel(self, ticket: int) -> list[int]: ...
    def lend(self, ticket: int) -> list[int]: ...
    def share(self, ticket: int) -> list[int]: ...
    def call_back(self, ticket: int) -> None: ...
    def holders(self) -> int: ...
    def waiting(self) -> int: ...

@final
class StalledThreads:
    """Detects blocked threads by their CPU clock, without taking the GIL."""

    def __new__(cls) -> StalledThreads: ...
    def want(self, wanted: bool) -> None:
        """Say whether anybody is to look now; `wait` ends at its next look while not. Cost: 40 ns, as `change`."""

    def change(self) -> None:
        """End `wait` at its next look, the next `wait` if nobody waits now: other threads are to be looked at."""

    def wait(self, threads: Sequence[int], every_ns: int, still_ns: int, looks: int) -> list[tuple[int, int | None]]:
        """Block until a thread has used less than `still_ns` of CPU between the looks, `looks` times, or has ended.

        Gives those threads of `threads`, numbered by the kernel, with their CPU clock in ns; None = the thread has
        ended. Empty: see `want` and `change`.
        """

@final
class CallProfile:
    """What is learned of one placed function. Cost: 60 ns a method."""

    def __new__(cls, *, light_ns: int, quantile: float, margin: float, learn_after: int) -> CallProfile:
        """Know nothing yet; `greenlane.policy.CallRule` says what each value means."""

    def update(self, took_ns: int, computed: bool = False) -> None:
        """Take in how long one call took, waits for permits not counted, and whether it computed without blocking."""

    def computes(self) -> bool:
        """Whether its calls compute and do not block, except one in ten."""

    def weight(self) -> str:
        """Give "unknown" (too few calls), "light" (the next one may run where its caller is) or "heavy"."""

    def expected_ns(self) -> int:
        """How long the next call is expected to take; 0 = unknown."""

    def samples(self) -> int:
        """How many calls it has learned from, forgotten ones included."""

@final
class GilLooks:
    """Looks at the GIL while something runs, from a thread of its own: how long would others wait for it?

    Cost: a thread, some 50 us; while it runs, what holds the GIL is interrupted once each `every_ns`, then less often.
    """

    def __new__(cls, every_ns: int) -> GilLooks:
        """Begin to look; the first look comes after 0.2 ms."""

    def end(self) -> tuple[int, int, int]:
        """End it: (ns that its looks stand for, of this those with a free GIL, the ninth decile of what one waits, ns).

        Of what a thread would wait for the GIL at a moment chosen at random, moments at which a look waited included.
        """

@final
class WorkerConcurrency:
    """How many requests each worker of a group gets at once: greenlane-policy's `at_once`. Cost: some us a call.

    Not for two threads at once.
    """

    def __new__(
        cls,
        *,
        busy: float,
        least: int,
        most: int,
        gap_ns: int,
        window_ns: int,
        first: int,
    ) -> WorkerConcurrency:
        """Know nothing yet; `greenlane.policy.AtOnceRule` says what each value means. `first`: the number till then."""

    def make_room(self, span: tuple[int, int, int], workers: int, in_progress: int) -> None:
        """Raise `number` if the CPU has had time to spare, for twice the requests in progress of all workers.

        `span`: as of `look`, of the time since the last call. Some ten times a second.
        """

    def look(self, span: tuple[int, int, int], *, jobs: int, blocked_ns: int, wakes: int, late_ns: int) -> bool:
        """Take in what has come since the last call; whether a window has closed, and `number` may be another.

        `span`: the time that it is of, all workers together; of it, their CPU, and how long their threads waited for a
        core; ns. `jobs`: requests that have ended. `blocked_ns`: how long requests were blocked until their reply was
        there, also those in progress. `wakes`, `late_ns`: wake-ups of our own, and how late they were together.
        """

    def number(self) -> int:
        """Requests at once for each worker."""

    def why(self) -> tuple[str, int, int]:
        """(unknown, model, room, least or most; mean CPU and I/O of a request, ns)."""

@final
class HeavyRouteLane:
    """Which routes compute for so long that they go to a lane apart: core's `apart`. Not for two threads at once."""

    def __new__(cls, *, over_ns: int, learn_after: int) -> HeavyRouteLane:
        """Know nothing yet; `greenlane.policy.ApartRule` says what each value means."""

    def look(self, ended: list[tuple[str, int, int]]) -> bool:
        """Take in what has ended since the last call: (route, jobs, CPU) in sums, ns; whether `routes` has changed."""

    def routes(self) -> list[tuple[str, int]]:
        """(route, mean CPU of a request, ns) of those apart, by name."""

@final
class Shed:
    """Whether a request of one lane is refused because it would end too late: core's `shed`. Any thread may call.

    Times are of one monotonic clock, ns; a negative one is before its start, and counts as that.
    """

    def __new__(cls, *, waited_ns: int, stands_ns: int, stands_count: int, frac: float, most: float) -> Shed:
        """Know nothing yet; `greenlane.policy.ShedRule` says what each value means."""

    def refuses(self, arrival_ns: int, due_ns: int, now_ns: int) -> bool:
        """Whether a request is refused that is about to begin; `due_ns` 0 = it has no deadline. Cost: 0.1 us."""

    def served(self, took_ns: int, span_ns: int) -> None:
        """Note what a request took here; `span_ns`: its whole deadline, 0 = none. Cost: 0.1 us, each 16th 1 us."""

    def p99_ns(self) -> int:
        """What a request takes at most; 0 = fewer than 16 have been seen."""

@final
class Switches:
    """The greenlet switches of this process, written down. `greenlane.probes.gevent` is its face.

    Needs the GIL: not for free-threaded builds.
    """

    @staticmethod
    def install(hub: type | None) -> None:
        """Begin; `hub` is the class of the loops' greenlets. Raises: ImportError if greenlet has no C functions."""

    @staticmethod
    def uninstall() -> None:
        """End; this thread's trace goes now, those of others at their next switch."""

    @staticmethod
    def installed() -> bool:
        """Whether it is installed."""

    @staticmethod
    def watch() -> None:
        """Trace this thread's switches, if they are not traced and recording is on."""

    @staticmethod
    def lead(name: str, original: Callable[..., Any], role: str, kind: int, call: str) -> Any:
        """Make what is called in the place of a method `name`, which is `original`; see `lead_to`.

        `role`: waits (with `kind` of `greenlane.phase.Kind` and `call`), run_callback, hub_wait, expires or
        thread_result. Raises ValueError for another one.
        """

    @staticmethod
    def finish(result: object) -> None:
        """Say that a worker thread has finished `result` now."""

    @staticmethod
    def spawned_ns() -> int:
        """Give when the running greenlet was started, monotonic ns; 0 = unknown."""

    @staticmethod
    def followed() -> int:
        """Give the number of greenlets that are followed now."""

@final
class Steps:
    """Steps of asyncio's and uvloop's tasks, as units of the recording; `greenlane.probes.asyncio` places the hooks.

    Cost: 0.15 to 0.3 us a step while recording, 0.02 us off.
    """

    @staticmethod
    def hook(name: str, original: Callable[..., Any], silent: list[bool]) -> Any:
        """Make what is called in the place of a loop's method `name`, which is `original`; see `lead_to`.

        `silent` not empty = passes by.

        `name`: call_soon, call_soon_threadsafe, call_at (monotonic seconds), call_later (libuv's whole ms) or
        create_task. Raises ValueError for another one.
        """

    @staticmethod
    def follow(variable: ContextVar[int]) -> None:
        """Take the job of tasks that nobody saw being made from `variable` in their context. The first call counts."""

    @staticmethod
    def know_python_tasks(step: Callable[..., Any], wakeup: Callable[..., Any]) -> None:
        """Know the methods by which tasks written in Python step. They must live for ever."""

    @staticmethod
    def entered() -> None:
        """Take note that a loop begins to run on this thread. Nests."""

    @staticmethod
    def left() -> None:
        """Answer `entered`."""

    @staticmethod
    def arrival() -> tuple[int, str]:
        """(ns, clock) of the bytes that the loop works on now, or for which this task was made; (0, "handler") = none.

        The clock is "kernel" (its stamp) or "accept" (the poll that found them).
        """

    @staticmethod
    def born_ns() -> int:
        """When this task was made; 0 = unseen, or no task runs."""

    @staticmethod
    def in_task() -> bool:
        """Whether a task runs on this thread whose steps are seen."""

    @staticmethod
    def pool_waited(from_ns: int) -> None:
        """Take note that this thread's job has waited for the thread since `from_ns`."""

@final
class CollectionTime:
    """How long garbage was collected. Runs no bytecode: no signal's handler is called, and lost, meanwhile."""

    def __new__(cls) -> CollectionTime: ...
    def __call__(self, phase: str, _about: Mapping[str, int]) -> None:
        """Take note of the garbage collector: a member of `gc.callbacks`."""

    def spent_ns(self) -> int: ...

@final
class Health:
    """Answers over HTTP how this process is, and its siblings: those that answer at the same address for the same user.

    One native thread answers, and takes no GIL: its sockets are in a table of descriptors of its own. The other one
    calls `look`. Both block all signals, and a forked child has neither.
    """

    def __new__(cls, address: str, every_ns: int, after_ns: int, hung_ns: int, look: Callable[[int], None]) -> Health:
        """Listen, and look for the first time.

        Args:
            address: numeric host:port; an IPv6 host in brackets.
            every_ns: pause between two looks.
            after_ns: a look that has waited so long for the GIL makes the process unable to serve.
            hung_ns: so long, beyond help.
            look: called with how long it has waited for the GIL, ns. What it raises is dropped.

        Raises:
            OSError: it cannot listen there.
            RuntimeError: no thread can be started.
        """

    def tell(self, ok: bool, live: bool, reason: str, threads: Sequence[tuple[int, str]]) -> None:
        """Say what the last look has found.

        Args:
            ok: whether it can serve.
            live: False = only a restart helps.
            reason: one line.
            threads: (native id, what to call it). If the next look gets no GIL, the one that computes is named.
        """

    def is_own(self) -> bool:
        """Whether this process made it, and not its parent."""

    def stop(self) -> None:
        """Stop listening, and looking soon after; waits for an answer under way. In a forked child nothing happens."""

def current_frames() -> dict[int, FrameType]:
    """Give `sys._current_frames()`, which must not collect garbage: CPython before 3.11.12 can deadlock (gh-106883)."""

def die_with_parent(parent: int) -> bool:
    """Ask the kernel to kill this process when the thread that started it ends. False = `parent` is not its parent."""

class _UpstreamRule(Protocol):
    """What `greenlane_work.limits.UpstreamRule` is; that says what each value means."""

    @property
    def limit(self) -> int: ...
    @property
    def first_limit(self) -> int: ...
    @property
    def least(self) -> int: ...
    @property
    def most_frac(self) -> float: ...
    @property
    def weight(self) -> int: ...
    @property
    def parked_most(self) -> int: ...
    @property
    def parked_most_bytes(self) -> int: ...
    @property
    def parked_most_ns(self) -> int: ...
    @property
    def all_parked_most(self) -> int: ...
    @property
    def all_parked_most_bytes(self) -> int: ...
    @property
    def failure_rate(self) -> float: ...
    @property
    def slow_call_rate(self) -> float: ...
    @property
    def slow_call_x(self) -> float: ...
    @property
    def slow_call_ns(self) -> int: ...
    @property
    def window(self) -> int: ...
    @property
    def least_calls(self) -> int: ...
    @property
    def probes(self) -> int: ...
    @property
    def open_ns(self) -> int: ...
    @property
    def open_growth(self) -> float: ...
    @property
    def open_most_ns(self) -> int: ...
    @property
    def probe_limit_ns(self) -> int: ...
    @property
    def forget_ns(self) -> int: ...
    @property
    def keys_most(self) -> int: ...

@final
class Start:
    """An order to begin now."""

    @property
    def order(self) -> int: ...
    @property
    def key(self) -> str: ...
    @property
    def probe(self) -> bool:
        """A half-open breaker judges by this call: keep to its time limit."""

    @property
    def time_limit_ns(self) -> int:
        """How long the call may take; 0 = as long as any."""

    @property
    def breaker_ns(self) -> int:
        """So long its key's breaker kept it parked."""

    @property
    def limit_ns(self) -> int:
        """Its key's limit."""

    @property
    def slots_ns(self) -> int:
        """Nothing but the want of a free slot, or the turns of others."""

@final
class KeyStatus:
    """What a person sees of one key; the counts are since it became known."""

    @property
    def key(self) -> str: ...
    @property
    def running(self) -> int: ...
    @property
    def parked(self) -> int: ...
    @property
    def parked_bytes(self) -> int: ...
    @property
    def oldest_ns(self) -> int:
        """When its oldest parked order arrived; 0 = none is parked."""

    @property
    def limit(self) -> int:
        """Calls that may be in progress, adapted."""

    @property
    def breaker(self) -> Literal["closed", "open", "half-open", "forced-open"]: ...
    @property
    def open_until_ns(self) -> int:
        """Until when it is open; 0 = it is not, or by hand."""

    @property
    def usual_ns(self) -> int:
        """Latency of the key at a load that is not the reason for it; 0 = unknown."""

    @property
    def failed_frac(self) -> float:
        """Share of the breaker's window; so is `slow_frac`."""

    @property
    def slow_frac(self) -> float: ...
    @property
    def started(self) -> int: ...
    @property
    def probes(self) -> int: ...
    @property
    def ok(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def timed_out(self) -> int: ...
    @property
    def refused(self) -> int: ...
    @property
    def cancelled(self) -> int: ...
    @property
    def slow(self) -> int: ...
    @property
    def opened(self) -> int:
        """How often its breaker opened by itself."""

    @property
    def surplus(self) -> int: ...
    @property
    def expired(self) -> int: ...

@final
class UpstreamTotals:
    """Sums over all keys."""

    @property
    def slots(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def parked(self) -> int: ...
    @property
    def parked_bytes(self) -> int: ...
    @property
    def keys(self) -> int:
        """Keys that are known, those without orders among them."""

    @property
    def reserved(self) -> int:
        """Slots that only keys below their guaranteed minimum may take."""

    @property
    def common(self) -> bool:
        """Most keys are slower than usual or their breakers open: the reason is probably on this side."""

@final
class Upstreams:
    """Which order goes to its upstream next: core's `upstream`.

    Orders are parked here without a thread; the numbers that name them are the caller's. Times may come from any one
    monotonic clock. Cost: 1 to 3 us for `arrive`, `next` and `ended` together, O(log keys).
    """

    def __new__(cls, slots: int, rule: _UpstreamRule) -> Upstreams:
        """Begin empty. slots: calls in progress at once, at least 1."""

    def arrive(self, order: int, key: str, now_ns: int, size: int = 0, deadline_ns: int = 0) -> bool:
        """Park an order of `size` bytes; `deadline_ns` 0 = none. False = it is here already, parked or in progress."""

    def next(self, now_ns: int) -> Start | None:
        """Give the order to begin, counted as begun from now on; None = no slot, or no key may. Call until None."""

    def ended(self, order: int, now_ns: int, outcome: int) -> bool:
        """Take note that a call has ended; `outcome` is a `greenlane.policy.Outcome`. False = none such in progress.

        Every order that `next` gave must end here once, whatever becomes of it.
        """

    def began(self, order: int, now_ns: int, timed: bool) -> None:
        """Let the time of a call that `next` gave run from now on; `timed`: it may count as slow.

        For calls that wait elsewhere in between: say False when `next` gave it, and again when it begins.
        """

    def wake_ns(self, now_ns: int) -> int | None:
        """When `next`, `surplus` or `expired` may answer differently though nothing happens; None = never."""

    def surplus(self, now_ns: int) -> list[int]:
        """Take out the parked orders that must go back: parked for too long; too many or too large, of a key or of all.

        Of a key the newest go. For the sum they are taken from the key whose last order would wait longest.
        """

    def expired(self, now_ns: int) -> list[int]:
        """Take out the orders whose deadline has passed while they were parked; `next` never gives such a one."""

    def withdraw(self, order: int, now_ns: int) -> bool:
        """Take a parked order out; says nothing about its key. False = it is not parked here."""

    def drain(self, now_ns: int) -> list[int]:
        """Take out all parked orders, oldest first."""

    def set(self, key: str, now_ns: int, rule: _UpstreamRule | None) -> None:
        """Give a key a rule of its own (it is never forgotten then), or the general one again."""

    def lease(self, key: str, now_ns: int, calls: int | None) -> None:
        """Let this process have this many calls of a shared limit of a key in flight; None = there is none.

        Calls in progress go on. A key that was forgotten has none: say it before its next order arrives.
        """

    def presume(self, key: str, now_ns: int, usual_ns: int) -> None:
        """Assume this usual latency of a key as long as its own is not known; 0 = none.

        A key that was forgotten has none: say it before its next order arrives.
        """

    def probes_failed(self, key: str, now_ns: int, open_ns: int) -> None:
        """Take note that another process's probes of a key failed and that it waits for so long: this one waits, too.

        Nothing changes unless the breaker is open, or half-open with no probe under way.
        """

    def open(self, key: str, now_ns: int) -> None:
        """Open a key's breaker by hand: its orders are parked until `close`."""

    def close(self, key: str, now_ns: int) -> None:
        """Close a key's breaker by hand, whyever it is open, and forget what its calls were like."""

    def load(self, key: str) -> tuple[int, int]:
        """Calls in progress and parked orders of a key. O(1)."""

    def look(self) -> list[KeyStatus]:
        """What a person sees, by name of the key. Cost: some us a key."""

    def look_at(self, key: str) -> KeyStatus | None:
        """The same of one key; None = it is not known. O(1)."""

    def totals(self) -> UpstreamTotals:
        """Sums over all keys. O(1)."""
