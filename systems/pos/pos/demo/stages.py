"""The demo's stages: ten merchants of which one is slow; as much as a worker does; orders at a rate it can carry."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from celery import Celery

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.run.talk import Talk
from pos.contenders import CONTENDERS
from pos.demo.options import Course, course
from pos.demo.turn import Turn, Usage, effects, ended, failures, lost, turn
from pos.journal import Entry, Event
from pos.queueing import QUEUE, application, publish
from pos.site import Site
from pos.surroundings import Surroundings

# --- Orders: published in an open loop, each when its time has come; or all of them beforehand.


# A publish waits for the broker's confirmation, some milliseconds: this many wait at the same time.
_THREADS: Final = 4
# All that was published at once is in the queue some milliseconds later.
_ARRIVE_S: Final = 10.0


class OpenLoop:
    """Publishes orders at an even rate, dealt out among merchants in turn, whatever becomes of them.

    Args:
        app: through which.
        prefix: begins each order's id.
        merchants: in turn.
        per_s: orders a second.
        seconds: how long.
    """

    def __init__(self, app: Celery, prefix: str, merchants: Sequence[str], per_s: float, seconds: float) -> None:
        self._app = app
        self._start_ns = time.monotonic_ns() + 50_000_000
        self._step_ns = 1e9 / per_s
        count = round(per_s * seconds)
        self.orders = [(f"{prefix}-{number}", merchants[number % len(merchants)]) for number in range(count)]
        self._lags_ns = [0] * count
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(first,), daemon=True) for first in range(_THREADS)]

    def due_ns(self, number: int) -> int:
        """When an order is due: its latency starts then. CLOCK_MONOTONIC."""
        return self._start_ns + round(number * self._step_ns)

    def start(self) -> None:
        """Begins; does not wait."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Publishes no more."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def wait(self) -> float:
        """Blocks until all are published; how late the latest publish began, in ms.

        Raises:
            GreenlaneError: the broker took one of them not.
        """
        while any(thread.is_alive() for thread in self._threads):
            time.sleep(0.05)
            checkpoint()
        if self._errors:
            raise GreenlaneError(f"publish an order: {self._errors[0]!r}, expected the broker to confirm it")
        return max(self._lags_ns, default=0) / 1e6

    def _run(self, first: int) -> None:
        try:
            for number in range(first, len(self.orders), _THREADS):
                left_s = (self.due_ns(number) - time.monotonic_ns()) / 1e9
                if self._stopped.wait(max(0.0, left_s)):
                    return
                self._lags_ns[number] = time.monotonic_ns() - self.due_ns(number)
                publish(self._app, *self.orders[number])
        except BaseException as error:
            self._errors.append(error)


def preload(around: Surroundings, orders: Sequence[tuple[str, str]]) -> None:
    """Publishes all orders at once, before a worker comes.

    Single confirmations would take longer than the run: that all have arrived is seen by the queue's length.

    Raises:
        GreenlaneError: they have not.
    """
    app = application(around, broker_transport_options={})
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
        queue = connection.default_channel.queue_declare
        before = queue(QUEUE, passive=True).message_count
        for at, (order, merchant) in enumerate(orders):
            publish(app, order, merchant, producer=producer)
            if at % 100 == 0:
                checkpoint()
        until = time.monotonic() + _ARRIVE_S
        while (there := queue(QUEUE, passive=True).message_count - before) < len(orders) and time.monotonic() < until:
            time.sleep(0.02)
    app.close()
    if there < len(orders):
        raise GreenlaneError(f"publish {len(orders)} orders: {there} have arrived, expected all of them")


ONE_SLOW: Final = course("one-slow")
#: What is done so long after the last publish counts.
SETTLE_S: Final = 5.0
_TAIL_S: Final = 0.3


def slow(
    site: Site, contender: str, prefix: str, per_s: float, seconds: float, talk: Talk, settle_s: float = SETTLE_S,
    way: Course = ONE_SLOW, set_slow: Callable[[str, bool], object] = lambda _name, _slow: None,
) -> dict[str, Any]:  # fmt: skip
    """One run, raw: a line for each order, and what the worker used. `set_slow` makes a merchant slow, or well."""
    merchants = site.around.names()
    site.forget()
    warm = [(f"{prefix}w-{number}", name) for number, name in enumerate(merchants) if name not in way.troubled]
    for _, name, is_slow in (law for law in way.laws if law[0] == 0):
        set_slow(name, is_slow)
    for order, merchant in warm:
        site.publish(order, merchant)
    with turn(site, contender) as running:
        start_s = running.first()
        running.until_done(len(warm))
        load = OpenLoop(site.app, prefix, merchants, per_s, seconds)
        flood = OpenLoop(
            site.app, f"{prefix}-flood", way.troubled[:1], way.flood_per_s or 1.0, seconds * bool(way.flood_per_s)
        )
        load.start()
        flood.start()
        try:
            before = Usage()
            for share, name, is_slow in (law for law in way.laws if law[0] > 0):
                before += running.used(load.due_ns(0) + int(share * seconds * 1e9))
                set_slow(name, is_slow)
            last_ns = load.due_ns(len(load.orders) - 1)
            talk.progress(f"{contender}: {len(load.orders)} orders in {seconds:g} s, then {settle_s:g} s")
            until_ns = last_ns + int(settle_s * 1e9)
            used = before + running.used(until_ns)
            lag_ms = max(load.wait(), flood.wait())
        finally:
            load.stop()
            flood.stop()
            for name in way.troubled:
                set_slow(name, False)
        running.used(until_ns + int(_TAIL_S * 1e9))
        running_most = {name: site.effects(name)["running_most"] for name in merchants}
    entries = running.entries
    missing = lost(site, [order for order, _ in [*load.orders, *flood.orders]], ended(entries))
    orders = _orders(load, entries, until_ns)
    return {
        "contender": contender, "troubled": list(way.troubled), "orders": orders, "start_s": start_s, "lag_ms": lag_ms,
        "until_ms": (until_ns - load.due_ns(0)) / 1e6, "running_most": running_most,
        "lost": missing, "errors": failures(running.entries, prefix), **effects(site, prefix, merchants),
        "usage": vars(used),
    }  # fmt: skip


def _orders(load: OpenLoop, entries: list[Entry], until_ns: int) -> list[list[Any]]:
    """[merchant, due ms since the first, begun after ms, done after ms] of each; None = not until then."""
    began: dict[str, int] = {}
    done: dict[str, int] = {}
    for entry in entries:
        if entry.at_ns <= until_ns and entry.event in (Event.BEGAN, Event.DONE):
            (began if entry.event == Event.BEGAN else done).setdefault(entry.order, entry.at_ns)

    def after_ms(when: Mapping[str, int], order: str, due_ns: int) -> float | None:
        return (when[order] - due_ns) / 1e6 if order in when else None

    lines: list[list[Any]] = []
    for number, (order, merchant) in enumerate(load.orders):
        due_ns = load.due_ns(number)
        due_ms = (due_ns - load.due_ns(0)) / 1e6
        lines.append([merchant, due_ms, after_ms(began, order, due_ns), after_ms(done, order, due_ns)])
    return lines


def waiting_most(orders: list[list[Any]]) -> int:
    """The most of these orders that were published and not begun, at any moment."""
    changes = [(due_ms, 1) for _, due_ms, _, _ in orders]
    changes += [(due_ms + began_ms, -1) for _, due_ms, began_ms, _ in orders if began_ms is not None]
    return max(accumulate(change for _, change in sorted(changes)), default=0)


# --- As much as a worker does: there is always an order in the queue; or orders come at a rate that it can carry.

#: More than any worker does in a second of one core at 3 ms an order.
_MOST_PER_S: Final = 330.0
#: Start, connections, learned bursts: not counted.
_WARM_S: Final = 2.0
#: In a window of this many calls, one after the other, a count is as good.
_MANY: Final = 10


def saturated(
    site: Site, contender: str, prefix: str, call_s: float, seconds: float, talk: Talk, warm_s: float = _WARM_S
) -> dict[str, Any]:  # fmt: skip
    """One run with a queue that never empties, raw: the instants at which orders were done, and what was used."""
    merchants = site.around.names()
    site.forget()
    per_s = min(CONTENDERS[contender].slots / call_s, 1e3 / max(site.around.work_ms, 1e3 / _MOST_PER_S))
    count = round(per_s * (seconds + 2 * warm_s + 2 * call_s)) + CONTENDERS[contender].slots
    orders = [(f"{prefix}-{number}", merchants[number % len(merchants)]) for number in range(count)]
    talk.progress(f"{contender}: {count} orders beforehand")
    preload(site.around, orders)
    with turn(site, contender) as running:
        start_s = running.first()
        # Until all slots have been used: who takes longer to fill them is not faster afterwards.
        running.used(time.monotonic_ns() + int((warm_s + call_s) * 1e9))
        talk.progress(f"{contender}: as many orders as it can do, {seconds:g} s")
        from_ns = time.monotonic_ns()
        used = running.used(from_ns + int(seconds * 1e9))
        until_ns = time.monotonic_ns()
        begun = _count(running, Event.BEGAN, 0, until_ns)
    missing = lost(site, [order for order, _ in orders], ended(running.entries))
    done = [
        entry.at_ns for entry in running.entries if entry.event == Event.DONE and from_ns <= entry.at_ns <= until_ns
    ]
    return {
        "contender": contender, "start_s": start_s, "done_ms": [(at_ns - from_ns) / 1e6 for at_ns in done],
        "usage": vars(used), "call_s": call_s, "emptied": begun >= count, "offered_per_s": None,
        "lost": missing, "errors": failures(running.entries, prefix), **effects(site, prefix, merchants),
    }  # fmt: skip


def offered(
    site: Site, contender: str, prefix: str, per_s: float, call_s: float, seconds: float, talk: Talk
) -> dict[str, Any]:
    """One run with orders in an open loop, raw as `saturated`, with the latency of each order beside it."""
    merchants = site.around.names()
    site.forget()
    site.publish(f"{prefix}w-0", merchants[0])
    with turn(site, contender) as running:
        start_s = running.first()
        running.until_done(1)
        warm_s = 2 * call_s
        load = OpenLoop(site.app, prefix, merchants, per_s, warm_s + seconds + call_s)
        load.start()
        try:
            talk.progress(f"{contender}: {per_s:.2f} orders a second, {seconds:g} s")
            from_ns = load.due_ns(0) + int(warm_s * 1e9)
            running.used(from_ns)
            used = running.used(from_ns + int(seconds * 1e9))
            until_ns = time.monotonic_ns()
            running.used(until_ns + int(2 * call_s * 1e9))
            load.wait()
        finally:
            load.stop()
    missing = lost(site, [order for order, _ in load.orders], ended(running.entries))
    at = {entry.order: entry.at_ns for entry in reversed(running.entries) if entry.event == Event.DONE}
    numbers = [number for number in range(len(load.orders)) if from_ns <= load.due_ns(number) <= until_ns]
    ids = [(load.orders[number][0], load.due_ns(number)) for number in numbers]
    done = [at_ns for at_ns in at.values() if from_ns <= at_ns <= until_ns]
    return {
        "contender": contender, "start_s": start_s, "done_ms": [(at_ns - from_ns) / 1e6 for at_ns in done],
        "latency_ms": [(at[order] - due_ns) / 1e6 if order in at else None for order, due_ns in ids],
        "usage": vars(used), "call_s": call_s, "emptied": False, "offered_per_s": per_s,
        "lost": missing, "errors": failures(running.entries, prefix), **effects(site, prefix, merchants),
    }  # fmt: skip


def _count(running: Turn, event: Event, from_ns: int, until_ns: int) -> int:
    return sum(entry.event == event and from_ns <= entry.at_ns <= until_ns for entry in running.entries)


def rate_per_s(done_ms: list[float], slots: int, seconds: float, call_s: float) -> float:
    """Orders done per second.

    Slots that begin together end together, so a window's count is right to a whole batch only. Where calls are long
    the time is taken from the first order's end to that of the one which, as many whole batches later, took its place.
    """
    done_ms = sorted(done_ms)
    batches = (len(done_ms) - 1) // slots
    if batches < 1 or seconds >= _MANY * call_s:
        return len(done_ms) / seconds
    span_ms = done_ms[batches * slots] - done_ms[0]
    return 1e3 * batches * slots / span_ms if span_ms > 0 else len(done_ms) / seconds
