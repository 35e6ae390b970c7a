"""One contender under one fault: orders are published, the fault strikes, all comes to rest, the books are balanced."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from greenlane_tools.lab.processes import StartFailed

from .books import Balance, balanced, recovered_s, standstill_s
from .brokers import SharedRabbitMQ
from .contenders import CONTENDERS, Contender
from .faults import FAULTS, Fault, Share
from .merchant import Law
from .orders import application
from .publisher import Publisher
from .site import Site

_TICK_S: Final = 0.05
#: Nothing new at any merchant for so long: it may be rest. A retry of a stock worker waits up to 2 s.
_QUIET_S: Final = 1.0
#: With quorum queues: what is told of messages that workers have is up to 5 s old.
_QUIET_QUORUM_S: Final = 11.0
#: Orders are missing, and for so long the broker says that none is open: they are. One answer is no proof: a quorum
#: queue that has just been started again, or is busy, says 0.
_MISSING_S: Final = 15.0
#: Between two questions to the broker, each of which costs most of a second of CPU.
_ASK_S: Final = 1.0


@dataclass(frozen=True)
class Plan:
    """What a cell runs.

    Args:
        orders: how many.
        rate_per_s: bound of the rate at which they are published.
        patience_s: no progress for so long, though orders are open: it is stuck. A breaker may stay open for 72 s.
        end_s: how long workers may take to end.
        kinds: kinds of the merchants, in turn.
        latency_ms: how long merchants take when all is well; a call's time limit is 2 s.
        workers: processes of the contender.
        queues: RabbitMQ's kind of queue, "classic" or "quorum", where the contender has none of its own.
    """

    orders: int = 2_000
    rate_per_s: float = 300.0
    patience_s: float = 100.0
    end_s: float = 15.0
    kinds: tuple[str, ...] = ("asked", "keyed")
    latency_ms: float = 50.0
    workers: int = 2
    queues: str = "classic"


@dataclass(frozen=True)
class Outcome:
    """What happened to it.

    Args:
        balance: the books.
        recovered_s: from the fault's end until all that was published before had its effect.
        standstill_s: the longest time in which no order had its effect.
        rest_s: from the first order to rest.
        end_s: from SIGTERM until the last worker had ended.
        stuck: it came to no rest: orders were open and nothing happened.
        restarts: workers that ended by themselves, or by the fault, and were started again.
        exit_codes: of the workers at the end, SIGTERM; None = still running after `end_s`, and killed.
        published_again: orders whose first publishing was not confirmed.
        on_their_way: the most orders that were published and not carried out when a step of the fault was taken.
        deaths: processes that killed themselves as the fault wants it.
        steps: of the fault; each may have broken every worker's connection once.
    """

    contender: str
    fault: str
    balance: Balance
    recovered_s: float
    standstill_s: float
    rest_s: float
    end_s: float
    stuck: bool
    restarts: int
    exit_codes: tuple[int | None, ...]
    published_again: int
    on_their_way: int
    deaths: int
    steps: int

    @property
    def verdict(self) -> str:
        """`even`, `limit` (uneven as stock Celery on its broker is known to be), or the first of what is wrong.

        A fault that met nothing has shown nothing.
        """
        fault, books, contender = FAULTS[self.fault], self.balance, CONTENDERS[self.contender]
        # One order for each connection that broke: what was on its way to the worker, see `table.LIMIT`.
        limited = contender.queues == "redis" and not contender.ours
        excused = books.lost if limited and books.lost <= 2 * self.steps else 0
        if self.stuck:
            return "stuck"
        if not replace(books, lost=books.lost - excused, done=books.done + excused).even:
            return "uneven"
        if books.dead and not fault.letters:
            return "uneven"
        if excused:
            return "limit"
        if contender.ours and None in self.exit_codes:
            return "hung"
        # Not all of them: who is killed by another one's death has been carried out by then, and is not called again.
        if self.deaths < min(1, fault.deaths) or not (self.on_their_way or fault.idle):
            return "not struck"
        return "even"


class Cell:
    """Runs one. The broker runs already, and is used for the next cell too."""

    def __init__(self, folder: Path, node: SharedRabbitMQ, contender: Contender, fault: Fault, plan: Plan) -> None:
        self._plan, self._fault = plan, fault
        self._folder, self._contender = folder, contender
        orders = [f"{folder.name}-{number:06}" for number in range(plan.orders)]
        # In the middle of the run, apart from each other, and at a merchant that says the truth whatever the fault.
        at = [len(orders) * (number + 1) // (fault.deaths + 2) // 10 * 10 + 5 for number in range(fault.deaths)]
        self._site = Site(
            folder, node, contender, orders, workers=plan.workers, kinds=plan.kinds, queue_kind=plan.queues,
            usual=Law(plan.latency_ms if fault.latency_ms is None else fault.latency_ms),
            lease_s=fault.lease_s, tries=fault.tries,
            die_at=tuple(orders[one] for one in at if one < len(orders)),
        )  # fmt: skip

    def run(self) -> Outcome:
        """Blocks until rest, or until it is stuck."""
        with self._site as site:
            app = application(site.setup(site.queue))
            self._publisher = Publisher(app, site.broker.url, site.orders, self._plan.rate_per_s, site.queues)
            try:
                return self._run(site, self._publisher)
            finally:
                self._publisher.stop()

    def _run(self, site: Site, publisher: Publisher) -> Outcome:
        site.wait_ready()
        self._on_their_way = self._steps = 0
        steps = self._fault.strike(site, publisher)
        if self._fault.before:
            self._until(self._over(steps))
        begun_s = time.time()
        publisher.start()
        self._until(self._over(steps))
        healed_s = time.time()
        self._until(lambda: not publisher.is_alive())
        if publisher.done_frac < 1:
            raise StartFailed(f"publish: {publisher.done_frac:.1%} of the orders confirmed, expected all")
        stuck = self._rest(site)
        rest_s = time.time() - begun_s
        codes, end_s = self._ended(site)
        waiting, dead = site.drained()
        books = site.books()
        return Outcome(
            self._contender.name, self._fault.name,
            balanced(publisher.confirmed, books, waiting, dead),
            recovered_s(publisher.confirmed, books, healed_s), standstill_s(books),
            rest_s, end_s, stuck, sum(worker.restarts for worker in site.workers), codes, publisher.published_again,
            self._on_their_way, site.deaths(), self._steps,
        )  # fmt: skip

    def _over(self, steps: object) -> Callable[[], bool]:
        """Goes through a fault's steps, one look at a time; True when it has ended."""
        awaited: list[float | Share] = [0.0]
        since = [time.monotonic()]

        def over() -> bool:
            wait = awaited[0]
            while self._publisher.done_frac >= wait.frac if isinstance(wait, Share) else _passed(since[0], wait):
                self._count_on_their_way()
                try:
                    wait = awaited[0] = next(steps)  # type: ignore[call-overload]
                except StopIteration:
                    return True
                since[0] = time.monotonic()
                self._steps += isinstance(wait, Share) or wait > _TICK_S
            return False

        return over

    def _count_on_their_way(self) -> None:
        open_now = self._publisher.sent - self._site.settled()[0]
        self._on_their_way = max(self._on_their_way, open_now)

    def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self._site.look()
            time.sleep(_TICK_S)

    def _rest(self, site: Site) -> bool:
        """Blocks until nothing changes; True when orders are still open then."""
        quiet_s = _QUIET_QUORUM_S if site.queue_kind == "quorum" else _QUIET_S
        last, since_s, ask_s = site.settled(), time.monotonic(), 0.0
        none_open_s: float | None = None
        while True:
            site.look()
            time.sleep(4 * _TICK_S)
            now, now_s = site.settled(), time.monotonic()
            if now != last:
                last, since_s, none_open_s = now, now_s, None
            elif now_s - since_s > self._plan.patience_s:
                return True
            elif now_s > ask_s and (now_s - since_s > quiet_s or now[0] == len(site.orders)):
                if self._open(site):
                    none_open_s = None
                elif self._accounted(site, now[0]):
                    return False
                elif none_open_s is None:
                    none_open_s = now_s
                elif now_s - none_open_s > _MISSING_S:
                    return False
                ask_s = time.monotonic() + _ASK_S

    def _accounted(self, site: Site, settled: int) -> bool:
        try:
            return settled + site.dead() >= len(site.orders)
        except StartFailed:
            return False

    def _open(self, site: Site) -> int:
        try:
            return site.open_orders()
        except StartFailed:  # rabbitmqctl is refused while the node starts
            return 1

    def _ended(self, site: Site) -> tuple[tuple[int | None, ...], float]:
        begun_s = time.monotonic()
        until_s = begun_s + self._plan.end_s
        for worker in site.workers:
            worker.ask_to_end()
        codes = tuple(worker.process.wait(max(0.0, until_s - time.monotonic())) for worker in site.workers)
        end_s = time.monotonic() - begun_s
        site.kill_workers()
        return codes, end_s


def _passed(since_s: float, seconds: float) -> bool:
    return time.monotonic() - since_s >= seconds
