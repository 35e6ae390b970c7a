"""Where the calls of one placed function run: one rule, from three measured calls.

    a loop bears it (at most 1 ms)                      inline: where its caller is
    it leaves the GIL for 70 % of its time              on threads, beside each other
    it cannot cross to a process, or the crossing
    would cost over a quarter of what it takes          on the native thread, one after the other
    otherwise it holds the GIL                          in a worker process

The first calls run on the native thread and are measured: their CPU, the share of their time without the GIL, and, if
they hold it, what a call and its result weigh (`payload`). One call a minute is measured again.
"""

from __future__ import annotations

import dataclasses
import os
import time
import types
import warnings
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, TypeVar

from greenlane._native import CallProfile
from greenlane.errors import GreenlaneError, Overloaded, PlacementWarning, WorkerDied
from greenlane.placement.call import Call, State
from greenlane.placement.executor import Executor
from greenlane.placement.functions import AUTO, ROUTE_PREFIX, PlacedFunction, plain
from greenlane.placement.payload import Payload
from greenlane.placement.processes.names import imported, shipped
from greenlane.policy.placed import CallRule
from greenlane.threads.unpatched import allocate_lock

__all__ = ["Choice", "Cost", "PlacedRow", "bound_here"]

_Number = TypeVar("_Number", int, float)
_MEASURED: Final = 3
_AGAIN_NS: Final = 60_000_000_000
#: Calls that are without the GIL for this share of their time may run beside each other, on threads of their own.
_RELEASED_FRAC: Final = 0.7
#: A call that uses CPU for less than 1 / this of its time sleeps or waits: cores do not limit it.
_LEAST_CPU: Final = 8
_MOST_SLEEPERS: Final = 32
#: What crossing to a process and back costs: a call, a megabyte of buffers; and its share of the call at most.
_CROSSING_NS, _COPY_NS = 150_000, 150_000
_MOST_CROSSING: Final = 4
#: In a worker's place it is slower by this factor: its caches or its cores are better here.
_SLOWER: Final = 2
_RECENT: Final = 8
#: Pickling this much takes a loop a millisecond.
_MUCH_BYTES: Final = 256 << 10
#: Modules whose objects another process has not: locks, sockets, open files, queues.
_PROCESS_OWN: Final = (
    "_thread",
    "threading",
    "_threading_local",
    "asyncio",
    "socket",
    "_io",
    "queue",
    "_queue",
    "tempfile",
)


class Cost:
    """What is measured of one call."""

    __slots__ = ("choice", "cpu_ns", "measures", "payload", "place", "ran_ns", "released_frac")

    def __init__(self, choice: Choice, place: str, measures: bool = False, payload: Payload | None = None) -> None:
        self.choice = choice
        self.place = place
        # Whether the GIL is looked at, and the payload weighed.
        self.measures = measures
        self.payload = payload
        self.ran_ns = self.cpu_ns = 0
        self.released_frac: float | None = None


@dataclasses.dataclass(frozen=True)
class PlacedRow:
    """What is known of one placed function, as people read it."""

    name: str
    placement: str
    reason: str
    calls: int
    expected_ms: float
    weight: str
    pinned: bool
    released_frac: float


class Choice:
    """What is known of one placed function in this process. Methods may be called on any thread."""

    def __init__(self, function: PlacedFunction, pin: str, rule: CallRule) -> None:
        """Know nothing yet.

        Args:
            function: what is placed.
            pin: where it must run; "auto" = not pinned.
            rule: which calls a loop bears.
        """
        self.function = function
        self.name = function.name
        self.pin = pin
        # How many calls may run at once on threads while one of these does.
        self.width = 1
        self._profile = CallProfile(**vars(rule))
        self._may_inline = function.mark != "heavy"
        self._measured_ns = 0
        # Of the measured calls, and of those that ran in a process. Replaced, never changed: other threads read them.
        self._ran: tuple[int, ...] = ()
        self._released: tuple[float, ...] = ()
        self._there: tuple[int, ...] = ()
        self._payload: Payload | None = None
        self._refused = ""
        self._warned = False
        # Workers that have not imported it yet; None = nobody has asked them.
        self._unready: int | None = None
        self._lock = allocate_lock()

    def next(self) -> Cost | None:
        """Say where the next call runs, and what is measured of it; None = inline."""
        if self._may_inline and self._profile.weight() == "light":
            return None
        now_ns = time.monotonic_ns()
        if len(self._ran) < _MEASURED or now_ns - self._measured_ns > _AGAIN_NS:
            self._measured_ns = now_ns
            return Cost(self, "thread", measures=True)
        if self._payload is None and not self._stays():
            return Cost(self, "thread", payload=Payload())
        return Cost(self, "process" if self._crosses() and self._unready == 0 else "thread")

    def wants_workers(self) -> bool:
        """Whether its calls are to run in processes, and nobody has yet asked the workers to import it."""
        return self._unready is None and len(self._ran) == _MEASURED and self._crosses()

    def get_ready(self, executors: Callable[[str], Executor]) -> None:
        """Let each worker import it; calls stay on the thread until they have. Does not wait for them."""
        fn = plain(self.function.fn)
        with self._lock:
            if self._unready is not None:
                return
            self._unready = 1
        self._refused = bound_here(fn)
        if self._refused:
            return
        try:
            name = shipped(fn)
            executor = executors("process")
        except GreenlaneError as error:
            self.refuse(error)
            return
        self._unready = getattr(getattr(executor, "options", None), "worker_count", 1)
        for _ in range(self._unready):
            call = Call(imported, (name if isinstance(name, str) else "",), name=f"import {self.name}")
            call.add_done_callback(self._ready)
            try:
                executor.submit(call)
            except Overloaded:  # Its first call there imports it.
                call.finish(None)
            except GreenlaneError as error:
                call.fail(error)

    def refuse(self, error: BaseException) -> None:
        """Never choose a worker process for it from now on."""
        rule = getattr(error, "rule", "") or f"{type(error).__name__}: {error}"
        died = f"a worker process died of it ({error})" if isinstance(error, WorkerDied) else rule
        self._refused = str(died).partition("\n")[0][:160]

    def ran_inline(self, took_ns: int) -> None:
        """Take in how long a call took that ran where its caller is."""
        self._profile.update(took_ns)

    def forked(self) -> None:
        """Start over in a forked child: its workers are its own."""
        self._unready = None
        self._lock = allocate_lock()

    def ended(self, call: Call, cost: Cost) -> None:
        """Take in what a call has cost that was not run where its caller is."""
        if call.state is not State.FINISHED:
            return
        ran_ns = cost.ran_ns or call.ran_ns
        if ran_ns:
            self._profile.update(ran_ns, cost.cpu_ns * _LEAST_CPU >= ran_ns)
        if cost.payload is not None:
            self._payload, self._refused = cost.payload, cost.payload.refused or self._refused
        if cost.measures:
            self._ran = (*self._ran, ran_ns)[-_MEASURED:]
            if cost.released_frac is not None:
                self._released = (*self._released, cost.released_frac)[-_MEASURED:]
            sleeps = cost.cpu_ns * _LEAST_CPU < ran_ns
            most = _MOST_SLEEPERS if sleeps else len(os.sched_getaffinity(0))
            self.width = most if self._stays() else 1
        if cost.place in ("process", "cluster"):
            self._warn_of(call.in_band)
            self._there = (*self._there, ran_ns)[-_RECENT:]
            if len(self._there) == _RECENT and self.pin == AUTO and _median(self._there) > _SLOWER * _median(self._ran):
                self._refused = f"it takes {_ms(_median(self._there))} there"

    def row(self) -> PlacedRow:
        """Give what people read."""
        placement, reason = (self.pin, "pinned") if self.pin != AUTO else self._reason()
        known = self._there if placement == "process" and self._there else ()
        return PlacedRow(
            name=self.name,
            placement=placement,
            reason=reason,
            calls=self._profile.samples(),
            expected_ms=round((_median(known) or self._profile.expected_ns()) / 1e6, 3),
            weight=self._profile.weight(),
            pinned=self.pin != AUTO,
            released_frac=round(_median(self._released), 3),
        )

    def _reason(self) -> tuple[str, str]:
        """Say where it runs, and why."""
        if self._may_inline and self._profile.weight() == "light":
            return "inline", f"{_ms(self._profile.expected_ns())}: a loop bears it"
        if len(self._ran) < _MEASURED:
            return "thread", f"new: {len(self._ran)} calls measured"
        work = f"{_ms(_median(self._ran))}, {_median(self._released):.0%} of it without the GIL"
        if self._stays():
            return "thread", f"{work}: it blocks nothing else"
        if self._refused:
            return "thread", f"{work}; it stays in this process: {self._refused}"
        payload = self._payload
        if payload is None:
            return "thread", f"{work}; what it takes and gives is not weighed yet"
        weight = f"{payload.in_band / 1e6:.2f} MB pickled and {payload.out_of_band / 1e6:.2f} MB of buffers"
        if not self._crosses():
            return "thread", f"{work}; {weight} would cost too much"
        if self._unready != 0:
            return "thread", f"{work}; worker processes are getting ready"
        return "process", f"{work}; {weight}"

    def _stays(self) -> bool:
        return _median(self._released) >= _RELEASED_FRAC

    def _crosses(self) -> bool:
        payload = self._payload
        if payload is None or self._refused or self._stays():
            return False
        crossing_ns = _CROSSING_NS + payload.out_of_band * _COPY_NS // 1_000_000 + 2 * payload.pickling_ns
        return crossing_ns * _MOST_CROSSING <= _median(self._ran)

    def _ready(self, call: Call) -> None:
        try:
            call.result()
        except BaseException as error:
            self._refused = f"a worker cannot import it ({error})".partition("\n")[0][:160]
        with self._lock:
            self._unready = max((self._unready or 0) - 1, 0)

    def _warn_of(self, in_band: int) -> None:
        """Warn once, at the function's own line, of what is pickled on the caller's loop."""
        if in_band <= _MUCH_BYTES or self._warned:
            return
        self._warned = True
        code = getattr(plain(self.function.fn), "__code__", None)
        file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("<placed>", 1)
        name = self.name.removeprefix(ROUTE_PREFIX)
        text = f"{name}: {in_band / 1e6:.1f} MB of a call and its answer are pickled, on the caller's loop. "
        text += "Remedy: send and give back bytes or arrays: they cross as they lie."
        try:
            warnings.warn_explicit(text, PlacementWarning, file, line, module=name.rpartition(".")[0] or name)
        except PlacementWarning:  # Warnings are errors here; a call must not fail for one.
            warnings.showwarning(text, PlacementWarning, file, line)


def bound_here(fn: Any) -> str:
    """Say what speaks against another process, as far as the function itself shows: "" = nothing.

    What it calls is not read. It may be wrong on the side of staying.
    """
    fn = plain(fn)
    body = fn
    if not isinstance(fn, types.FunctionType):  # a method, or an object that can be called
        body = getattr(fn, "__func__", None) or type(fn).__call__
        if not isinstance(body, types.FunctionType):
            return ""
        if changed := _changed(body.__code__, "ATTR"):
            return f"it changes an attribute, {changed}"
    elif fn.__closure__:
        return "it is a closure: it uses " + ", ".join(fn.__code__.co_freevars)
    if changed := _changed(body.__code__, "GLOBAL"):
        return f"it changes the global {changed}"
    for name in (name for code in _codes(body.__code__) for name in code.co_names):
        kind = type(body.__globals__.get(name))
        modules = {str(base.__module__).partition(".")[0] for base in kind.__mro__}
        if not modules.isdisjoint(_PROCESS_OWN) or kind.__qualname__ in ("ContextVar", "LocalProxy"):
            return f"it uses {name}, which belongs to this process"
    return ""


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Give a function's code and that of what it defines."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _changed(code: types.CodeType, what: str) -> str:
    """Name a GLOBAL or an ATTR that a function, or one that it defines, stores or deletes; "" = none."""
    import dis  # Not with every program: 10 ms.

    changes = (f"STORE_{what}", f"DELETE_{what}")
    found = (each.argval for part in _codes(code) for each in dis.get_instructions(part) if each.opname in changes)
    return next(found, "")


def _median(values: Collection[_Number]) -> _Number:
    return sorted(values)[len(values) // 2] if values else 0


def _ms(ns: int) -> str:
    ms = ns / 1e6
    return f"{ms:.0f} ms" if ms >= 20 else f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2f} ms"
