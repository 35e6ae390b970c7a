"""What requests cost, by clocks: for limits and lanes that are set live. docs/design/0022-serve-measures-by-clocks.md.

`Tally` has the sums. CPU is that of thread clocks, by route. I/O lasts until the reply is *ready*: what a request is
blocked, as phase probes see it, less the usual wait until code that is ready runs (`Lateness`), which the parent takes
off. It counts while it lasts: a request that ends late, or never, is known from its start. That is looked at for one
request in some (`Tally.picks`); `SampledRequest` is one of these, and stands for the others.
"""

from __future__ import annotations

import os
import random
import threading
import time
from _thread import get_ident
from collections.abc import Callable
from typing import Any, Final

from greenlane import phase
from greenlane.probes.routes import shape
from greenlane.threads import unpatched
from greenlane_serve.worker.ledger import Ledger, RouteSums, Sums

#: Requests a second that are looked at closely, about; where there are fewer it is each.
SAMPLES_PER_S: Final = 100
# Routes that are counted separately; further ones count together. The native part knows as many.
_MOST_ROUTES: Final = 1024
# The parent gets reports at most this often; it looks once a second.
_TELL_NS: Final = 400_000_000
#: Between two wake-ups of our own while requests are sampled, as a mean; how long after the last one.
LOOK_S: Final = 0.02
IDLE_S: Final = 1.0
_LAG_BUCKETS: Final = 32
# A call that took less did not wait for the interpreter: it had not blocked, and got it back before others woke.
_SHORT_NS: Final = 200_000
# A wait for a lock ends when another request of this process goes on, and is no I/O; a longer one is for an event, as
# of a long poll. A tenth of a second, as long as people notice. Arbitrary.
_EVENT_NS: Final = 100_000_000


class SampledRequest:
    """One request that is looked at closely: it is blocked while none of its parts (thread, tasks) runs or could."""

    __slots__ = (
        "_busy",
        "_clock",
        "_from_ns",
        "_guard",
        "_since_ns",
        "blocked_ns",
        "cpu_ns",
        "native_id",
        "stands_for",
        "waits",
    )

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self.native_id = unpatched.get_native_id()
        #: Requests that it stands for.
        self.stands_for = 1
        self.cpu_ns = 0
        self.blocked_ns = 0
        self.waits = 0
        self._busy = 1
        # When the present wait began; from when on it counts, if it lasts that long.
        self._since_ns = self._from_ns = 0
        self._guard = unpatched.allocate_lock()

    def rest(self, *, lock: bool = False) -> None:
        """Note that a part waits for something, or has ended; `lock`: for another thread."""
        with self._guard:
            self._busy -= 1
            if not self._busy:
                self._since_ns = self._clock()
                self._from_ns = self._since_ns + (_EVENT_NS if lock else 0)

    def run(self) -> None:
        """Note that a part goes on, or begins."""
        with self._guard:
            if not self._busy:
                now_ns = self._clock()
                self.waits += now_ns - _SHORT_NS > self._since_ns and now_ns >= self._from_ns
                self._count(now_ns)
            self._busy += 1

    def take(self) -> tuple[int, int]:
        """How long it was blocked since the last call, as far as it has come, and how often it was let go."""
        with self._guard:
            if not self._busy:
                self._count(self._clock())
            taken = self.blocked_ns, self.waits
            self.blocked_ns = self.waits = 0
        return taken

    def add(self, blocked_ns: int) -> None:
        """Note that it was blocked where none of its parts said so."""
        with self._guard:
            self.blocked_ns += blocked_ns

    def _count(self, now_ns: int) -> None:
        if now_ns >= self._from_ns:
            self.blocked_ns += now_ns - self._since_ns
            self._since_ns = now_ns

    @property
    def rests(self) -> bool:
        """Whether none of its parts runs or could."""
        return not self._busy


class Blocks:
    """Which of the sampled requests' threads block: an observer of phases while there is one, before the permits."""

    def __init__(self) -> None:
        self._guard = unpatched.allocate_lock()
        #: By thread.
        self.of: dict[int, SampledRequest] = {}
        self._depth: dict[int, list[int]] = {}

    def begin(self, sample: SampledRequest) -> None:
        """Look at this thread from now on."""
        with self._guard:
            self._depth[get_ident()] = []
            self.of[get_ident()] = sample
            if len(self.of) == 1:
                phase.subscribe(self, first=True)

    def end(self) -> SampledRequest | None:
        """Look at it no longer."""
        if get_ident() not in self.of:
            return None
        with self._guard:
            sample = self.of.pop(get_ident())
            kinds = self._depth.pop(get_ident())
            if kinds:
                sample.run()
            if not self.of:
                phase.unsubscribe(self)
        return sample

    def leave(self, kind: int, /) -> None:
        """Take note that this thread is about to block."""
        if (kinds := self._depth.get(get_ident())) is not None:
            kinds.append(kind)
            if len(kinds) == 1:
                self.of[get_ident()].rest(lock=kind == phase.Kind.LOCK)

    def enter(self) -> None:
        """Take note that it came back."""
        if kinds := self._depth.get(get_ident()):
            kinds.pop()
            if not kinds:
                self.of[get_ident()].run()


class Lateness:
    """How late what is ready runs, from wake-ups of our own: it waits for the GIL, or for its turn on the loop.

    Without what a wake-up takes in a process that does nothing else.
    """

    def __init__(self) -> None:
        self.by_lag = [0] * _LAG_BUCKETS
        self.sum_ns = 0
        self._least_ns: int | None = None

    def took(self, late_ns: int) -> None:
        """Take in one wake-up."""
        late_ns = max(0, late_ns)
        self._least_ns = late_ns if self._least_ns is None else min(late_ns, self._least_ns)
        own_ns = late_ns - self._least_ns
        self.by_lag[min((own_ns // 1000).bit_length(), _LAG_BUCKETS - 1)] += 1
        self.sum_ns += own_ns


class Tally:
    """The sums of this worker, and its reports to the parent."""

    def __init__(self, ledger: Ledger, lateness: Lateness, *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock = clock
        self._ledger = ledger
        self._lateness = lateness
        self._guard = unpatched.allocate_lock()
        self._rows: dict[str, list[int]] = {}
        self._jobs = self._jobs_told = 0
        self._told_ns = 0
        # Sampled requests in progress; what all were blocked so far, and how often.
        self._open: set[SampledRequest] = set()
        self._blocked_ns = self._waits = 0
        # One in this many requests is looked at; how many are skipped before the next one.
        self._each = self._left = 1

    def picks(self) -> bool:
        """Whether the request that begins is looked at closely. About 0.1 us."""
        self._left -= 1
        if self._left > 0:
            return False
        self._left = 1 if self._each == 1 else random.randint(1, 2 * self._each - 1)
        return True

    def begin(self, sample: SampledRequest) -> None:
        """Look at a request that was picked, until it has `ended`."""
        sample.stands_for = self._each
        with self._guard:
            self._open.add(sample)

    def passed(self, route: str) -> None:
        """Count a request of which nothing else is known. On a loop's thread only, where nobody else counts."""
        self._jobs += 1
        (self._rows.get(route) or self._row(route))[0] += 1

    def _row(self, route: str) -> list[int]:
        return self._rows.setdefault(route if len(self._rows) < _MOST_ROUTES else "", [0, 0, 0])

    def ended(self, route: str, cpu_ns: int | None, sample: SampledRequest | None) -> None:
        """Count a request; `cpu_ns` None = not known. About 0.5 us."""
        with self._guard:
            row = self._rows.get(route) or self._row(route)
            self._jobs += 1
            row[0] += 1
            if cpu_ns is not None:
                row[1] += cpu_ns
                row[2] += 1
            if sample is not None:
                self._open.discard(sample)
                self._count(sample)

    def turn(self) -> None:
        """Tell the parent that this process turns, and now and then the sums. On the main thread."""
        self._ledger.beat()
        now_ns = self._clock()
        span_ns = now_ns - self._told_ns
        if span_ns < _TELL_NS:
            return
        with self._guard:
            for sample in self._open:
                self._count(sample)
            routes = {route: RouteSums(*row) for route, row in self._rows.items()}
            jobs, self._jobs_told, self._told_ns = self._jobs - self._jobs_told, self._jobs, now_ns
        self._each = max(1, round(jobs * 1e9 / span_ns / SAMPLES_PER_S))
        self._left = min(self._left, 2 * self._each)
        late = self._lateness
        self._ledger.write(Sums(now_ns, routes, self._blocked_ns, self._waits, late.by_lag, late.sum_ns))

    def _count(self, sample: SampledRequest) -> None:
        blocked_ns, waits = sample.take()
        self._blocked_ns += sample.stands_for * blocked_ns
        self._waits += sample.stands_for * waits


# A thread that waits for the GIL, a permit or a lock stands in this system call.
_FUTEX: Final = {"x86_64": b"202", "aarch64": b"98"}.get(os.uname().machine)


class _Here(threading.local):
    """Of one thread: its CPU when its last request had ended, and the route of its present one."""

    cpu_ns = 0
    route = ""


class _Names:
    """Hears which route the framework has resolved."""

    def __init__(self, here: _Here) -> None:
        self._here = here

    def name(self, route: str, /) -> None:
        self._here.route = route


class ThreadClocks:
    """Counts requests: `begin` and `end` are gunicorn's hooks around each, on its thread.

    Cost: some 2 us a request, and 1 us a blocking call of all while one is sampled.
    """

    def __init__(self, tally: Tally, lateness: Lateness) -> None:
        self._tally = tally
        self._lateness = lateness
        self._here = _Here()
        self._blocks = Blocks()
        self._asleep = False
        self._wakes = unpatched.allocate_lock()
        self._wakes.acquire()
        self._begun_s = 0.0
        phase.subscribe(_Names(self._here))
        unpatched.start_new_thread(self._watch_lateness, ())

    def begin(self) -> None:
        """Note that this thread begins a request."""
        if self._tally.picks():
            sample = SampledRequest()
            self._tally.begin(sample)
            self._blocks.begin(sample)
            self._begun_s = time.monotonic()
            if self._asleep:
                self._asleep = False
                self._wakes.release()

    def end(self, method: str, path: str) -> None:
        """Note that it has ended it. Its CPU is that of the thread since the one before: reading and writing too."""
        here = self._here
        now_ns = time.thread_time_ns()
        cpu_ns, here.cpu_ns = now_ns - here.cpu_ns, now_ns
        route, here.route = here.route or shape(method, path), ""
        self._tally.ended(route, cpu_ns, self._blocks.end())

    def _watch_lateness(self) -> None:
        """Wake up now and then while requests are sampled: how late that is, and what probes do not see."""
        looked_s = time.monotonic()
        while True:
            if time.monotonic() - self._begun_s > IDLE_S:
                self._asleep = True
                self._wakes.acquire()
                looked_s = time.monotonic()
            pause_s = random.uniform(0.5, 1.5) * LOOK_S
            due_s = time.monotonic() + pause_s
            unpatched.sleep(pause_s)
            now_s = time.monotonic()
            self._lateness.took(round((now_s - due_s) * 1e9))
            self._look(now_s - looked_s)
            looked_s = now_s

    def _look(self, span_s: float) -> None:
        """A call of C code blocks that no probe knows: the kernel says so. One thread stands for all."""
        samples = list(self._blocks.of.values())
        if samples:
            sample = random.choice(samples)
            if not sample.rests and stands_in_call(sample.native_id):
                sample.add(round(span_s * 1e9) * len(samples))


def stands_in_call(native_id: int) -> bool:
    """Whether a thread stands in a system call other than a wait for other threads. About 10 us."""
    if _FUTEX is None:
        return False
    try:
        fd = os.open(f"/proc/self/task/{native_id}/syscall", os.O_RDONLY)
        try:
            call: Any = os.read(fd, 32).split()[0]
        finally:
            os.close(fd)
    except (OSError, IndexError):
        return False
    return call not in (_FUTEX, b"running", b"-1")
