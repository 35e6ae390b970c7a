"""What is done to a site while orders flow.

A fault is a generator that acts on the site and yields what it waits for: a number = this many seconds, `Share(x)` =
until that share of the orders is published. When it ends, all is healed.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from greenlane_tools.lab.processes import StartFailed, found_by
from greenlane_tools.lab.relay import Cable
from pos.children import ROOT
from pos.conservation.contenders import Worker
from pos.conservation.servers import SERVERS, File

from .contenders import Contender
from .merchant import Law
from .publisher import Publisher
from .servers import Server
from .site import Site


@dataclass(frozen=True)
class Share:
    """Until this share of the orders is confirmed by the broker."""

    frac: float


Steps = Iterator[float | Share]
Strike = Callable[[Site, Publisher], Steps]

#: When most faults begin.
_BEGIN: Final = Share(0.3)


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    Args:
        name: as on the command line.
        what: one line of what happens.
        strike: the generator.
        before: it begins before the first order is published.
        lease_s: the workers' setting `task_store_lease_s`; short, since what a dead worker had begun waits so long.
        tries: calls of an order until it is given up.
        stores: it strikes stores of these kinds, of `stores.KINDS`; empty = it strikes something else.
        beyond: why books may be uneven here; "" = they must not.
        deaths: at how many orders the process that made the call kills itself before it could acknowledge.
        latency_ms: what merchants take when all is well; None = as the run has it.
        idle: it need not meet any order on its way; others that meet none have struck nothing.
        letters: orders may end as dead letters; where nobody gives up, one that does is wrong.
    """

    name: str
    what: str
    strike: Strike
    before: bool = False
    lease_s: float = 5.0
    beyond: str = ""
    deaths: int = 0
    stores: tuple[str, ...] = ()
    tries: int = 10
    latency_ms: float | None = None
    idle: bool = False
    letters: bool = False

    def meets(self, contender: Contender) -> bool:
        """Whether this contender has what it strikes."""
        return not self.stores or contender.store in self.stores


def _none(site: Site, publisher: Publisher) -> Steps:
    yield Share(1.0)


def _worker_kill(site: Site, publisher: Publisher) -> Steps:
    for begin in (0.3, 0.6):
        yield Share(begin)
        site.workers[0].kill()
        yield 0.5
        site.workers[1].kill()
    yield 0.5


def _worker_kill_last(site: Site, publisher: Publisher) -> Steps:
    yield Share(1.0)
    yield 0.5
    for worker in site.workers:
        worker.kill()
    yield 0.5


def _broker_kill_last(site: Site, publisher: Publisher) -> Steps:
    yield Share(1.0)
    yield 0.5
    site.broker.kill()
    yield 1.0
    site.broker.restart()


def _worker_kill_idle(site: Site, publisher: Publisher) -> Steps:
    yield 1.5
    for worker in site.workers:
        worker.kill()
    yield 0.5


def _worker_kill_start(site: Site, publisher: Publisher) -> Steps:
    yield _BEGIN
    for after_s in (0.2, 0.5, 0.8, 1.1, 1.4):
        for worker in site.workers:
            worker.kill()
            worker.start()
        yield after_s
    for worker in site.workers:
        worker.kill()
        worker.start()


def _worker_freeze(site: Site, publisher: Publisher) -> Steps:
    yield _BEGIN
    site.workers[0].pause()
    yield 14.0  # longer than two heartbeats of 4 s: the broker gives its orders to the other one
    site.workers[0].go_on()


def _broker_kill(site: Site, publisher: Publisher) -> Steps:
    yield _BEGIN
    site.broker.kill()
    yield 1.0
    site.broker.restart()


def _broker_freeze(site: Site, publisher: Publisher) -> Steps:
    yield _BEGIN
    site.broker.pause()
    yield 6.0
    site.broker.go_on()


def _broker_cable(cable: Cable, seconds: float) -> Strike:
    def strike(site: Site, publisher: Publisher) -> Steps:
        yield _BEGIN
        site.to_broker.set(cable)
        yield seconds
        site.to_broker.set(Cable.WELL)

    return strike


def _merchant_cable(cable: Cable, seconds: float) -> Strike:
    def strike(site: Site, publisher: Publisher) -> Steps:
        yield _BEGIN
        for relay in site.to_merchants.values():
            relay.set(cable)
        yield seconds
        for relay in site.to_merchants.values():
            relay.set(Cable.WELL)

    return strike


def _answers(answer: str, frac: float = 0.5, seconds: float = 3.0) -> Strike:
    """Four of ten merchants, two of each kind, answer so to this share of the calls."""
    return _merchant_law(lambda usual: replace(usual, answer=answer, frac=frac), seconds)


def _slow(latency_ms: float) -> Strike:
    """Four of ten merchants, two of each kind, take so long."""
    return _merchant_law(lambda usual: replace(usual, latency_ms=latency_ms), 3.0)


def _merchant_law(law_of: Callable[[Law], Law], seconds: float) -> Strike:
    def strike(site: Site, publisher: Publisher) -> Steps:
        yield _BEGIN
        site.law(law_of(site.usual), "m0", "m1", "m2", "m3")
        yield seconds
        site.law(site.usual)

    return strike


def _deployed(worker: Worker) -> Steps:
    """It is asked to end and, when it has, started again; after 15 s it is killed."""
    worker.ask_to_end()
    for _ in range(300):
        if not worker.process.running():
            break
        yield 0.05
    worker.kill()
    worker.start()


def _deploys(site: Site, publisher: Publisher) -> Steps:
    """Rolling: one worker after the other is asked to end and started again, twice, with orders parked and retried."""
    site.law(replace(site.usual, answer="error"), "m0", "m1")
    for begin in (0.2, 0.4, 0.6, 0.8):
        yield Share(begin)
        yield from _deployed(site.workers[int(begin * 5) % 2])
    site.law(site.usual)


def _divert(site: Site, publisher: Publisher) -> Steps:
    """A second version beside the first takes half, all, and nothing; the first is deployed again meanwhile."""
    second = site.add_worker(new=True)
    for begin, share in ((0.2, 0.5), (0.4, 1.0), (0.6, 0.3), (0.8, 0.0)):
        yield Share(begin)
        publisher.share = share
        if share == 1.0:
            site.workers[0].kill()
    yield Share(1.0)
    yield from _deployed(second)


def _store_locked(site: Site, publisher: Publisher) -> Steps:
    assert isinstance(site.store, File)
    yield _BEGIN
    with site.store.locked():
        yield 4.0


def _store_full(site: Site, publisher: Publisher) -> Steps:
    assert isinstance(site.store, File)
    yield _BEGIN
    pids = site.pids()
    site.store.disk.fill(pids)
    yield 4.0
    site.store.disk.free(pids)


def _store_kill(site: Site, publisher: Publisher) -> Steps:
    assert isinstance(site.store, Server)
    yield _BEGIN
    site.store.kill()
    yield 3.0
    site.store.start()


def _store_freeze(site: Site, publisher: Publisher) -> Steps:
    assert isinstance(site.store, Server)
    yield _BEGIN
    site.store.pause()
    yield 8.0  # longer than the lease: all of them have run out when it answers again
    site.store.go_on()


def _dead_letters(site: Site, publisher: Publisher) -> Steps:
    """Below the share of failures at which a breaker opens, or the letters would wait for its probes."""
    site.law(replace(site.usual, answer="error", frac=0.4), "m0", "m1", "m2", "m3")
    yield Share(0.3)
    site.to_broker.set(Cable.SLOW)  # letters queue before the broker
    yield Share(0.6)
    for worker in site.workers:
        worker.kill()
    site.to_broker.set(Cable.WELL)
    yield Share(0.8)
    site.to_broker.set(Cable.CUT)
    yield 0.5
    site.to_broker.set(Cable.WELL)
    yield Share(1.0)
    yield from _letters(site)
    site.law(site.usual)


def _dead_letters_again(site: Site, publisher: Publisher) -> Steps:
    """As an operator does when the merchants are well again."""
    site.law(replace(site.usual, answer="error", frac=0.4), "m0", "m1", "m2", "m3")
    yield Share(1.0)
    yield from _letters(site)
    site.law(site.usual)
    program = str(Path(sys.executable).with_name("greenlane"))
    command = [program, "dead-letters", site.queue, "--send-again", "--all"]
    subprocess.run(
        command, env=found_by(ROOT) | {"BROKER_URL": site.broker.url}, check=True, timeout=60, stdout=subprocess.DEVNULL
    )


def _letters(site: Site) -> Steps:
    """Until there are some dead letters, and 3 s more; a worker that was killed needs a while to come back."""
    for _ in range(1_200):
        with contextlib.suppress(StartFailed):  # another cell has just killed the broker
            if site.dead():
                yield 3.0
                return
        yield 0.05
    raise StartFailed("strike: no dead letter is there after a minute, expected some: no order was given up")


def _mixed(site: Site, publisher: Publisher) -> Steps:
    """One after the other, while some merchants lie all the time."""
    yield Share(0.1)
    site.law(replace(site.usual, answer="reset_done", frac=0.2), "m0", "m1")
    site.law(replace(site.usual, answer="done_but_error", frac=0.2), "m2", "m3")
    yield 1.0
    site.workers[0].kill()
    yield 0.5
    site.to_broker.set(Cable.CUT)
    yield 0.5
    site.to_broker.set(Cable.WELL)
    yield from _deployed(site.workers[1])
    site.broker.kill()
    yield 0.5
    site.broker.restart()
    site.law(site.usual)


_CUT_S, _HOLE_S = 2.0, 9.0
FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault("none", "nothing happens", _none, idle=True),
        Fault("worker-kill", "SIGKILL of each worker with orders in flight, twice", _worker_kill),
        Fault("worker-kill-last", "SIGKILL of all workers 0.5 s after the last order", _worker_kill_last,
              latency_ms=1_500),
        Fault("worker-kill-idle", "SIGKILL of workers that have nothing to do", _worker_kill_idle, before=True,
              idle=True),
        Fault("worker-kill-ack", "a worker dies after the call and before the ack, three times", _none, deaths=3),
        Fault("worker-kill-start", "SIGKILL of workers that are starting, five times", _worker_kill_start),
        Fault("worker-freeze", "SIGSTOP of a worker for 14 s; its lease is 30 s", _worker_freeze, lease_s=30.0),
        Fault(
            "worker-freeze-long",
            "the same with a lease of 5 s",
            _worker_freeze,
            beyond="a worker stopped between its last check of the lease and the call repeats another worker's call",
        ),
        Fault("deploy", "SIGTERM and a new start of one worker after the other, twice; 2 of 10 merchants say only 500",
              _deploys, tries=100),
        Fault("divert", "a second version takes 50, 100, 30, 0 % of the orders; SIGKILL, SIGTERM", _divert),
        Fault("broker-kill", "SIGKILL of the broker; RabbitMQ is back after 5 s", _broker_kill),
        Fault("broker-kill-last", "SIGKILL of the broker 0.5 s after the last order", _broker_kill_last,
              latency_ms=1_500),
        Fault("broker-freeze", "SIGSTOP of the broker for 6 s, SIGCONT", _broker_freeze),
        Fault("broker-cut", "network to the broker reset for 2 s", _broker_cable(Cable.CUT, _CUT_S)),
        Fault("broker-hole", "network to the broker swallows everything for 9 s", _broker_cable(Cable.HOLE, _HOLE_S)),
        Fault("broker-half", "nothing comes back from the broker for 9 s", _broker_cable(Cable.HALF, _HOLE_S)),
        Fault("broker-slow", "0.1 s more for each packet to the broker, 3 s", _broker_cable(Cable.SLOW, 3.0)),
        Fault("merchant-cut", "network to the merchants reset for 2 s", _merchant_cable(Cable.CUT, _CUT_S)),
        Fault("merchant-hole", "network to merchants swallows everything, 3 s", _merchant_cable(Cable.HOLE, 3.0)),
        Fault("merchant-half", "no answer comes back from the merchants for 3 s", _merchant_cable(Cable.HALF, 3.0)),
        Fault("merchant-net-slow", "0.1 s more for each packet to merchants, 3 s", _merchant_cable(Cable.SLOW, 3.0)),
        Fault("merchant-slow", "4 of 10 merchants take 1.5 s, for 3 s", _slow(1_500)),
        Fault("merchant-hang", "4 of 10 take half the orders and never answer", _answers("hang")),
        Fault("merchant-error", "4 of 10 say 500 to half the orders", _answers("error")),
        Fault("merchant-reset", "4 of 10 reset half the calls, undone", _answers("reset")),
        Fault("merchant-reset-done", "4 of 10 reset half the calls, done", _answers("reset_done")),
        Fault("merchant-lie-500", "4 of 10 say 500 to half the orders, done", _answers("done_but_error")),
        Fault("merchant-lie-200", "4 of 10 say 200 to half the orders, undone", _answers("ok_but_nothing")),
        Fault("merchant-twice", "4 of 10 answer each call two times", _answers("twice", 1.0)),
        Fault("dead-letters", "4 of 10 say 500 to 40 % of the calls, two tries; a slow broker, SIGKILL, a reset",
              _dead_letters, tries=2, letters=True),
        Fault("dead-letters-again", "4 of 10 say 500 to 40 % of the calls, two tries; then all letters are sent again",
              _dead_letters_again, tries=2, letters=True),
        Fault("store-locked", "another process has the store locked for 4 s", _store_locked, stores=("sqlite",)),
        Fault("store-full", "the store's disk is full for 4 s", _store_full, stores=("sqlite",)),
        Fault("store-kill", "SIGKILL of the server that is the store, back after 3 s", _store_kill, stores=SERVERS),
        Fault("store-freeze", "SIGSTOP of the server that is the store for 8 s", _store_freeze, stores=SERVERS),
        Fault(
            "mixed",
            "lying merchants, deaths before the ack, SIGKILL of a worker, a cut network, a deploy, then of the broker",
            _mixed,
            deaths=2,
        ),
    )
}  # fmt: skip
