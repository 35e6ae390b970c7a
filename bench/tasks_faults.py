"""What happens to a whole Celery program's orders while workers and broker die: results, retries, chains, chords.

    python -m bench.tasks_faults [--orders N] [--brokers rabbitmq,redis] [--contenders greenlane,celery-threads]
    python -m bench.tasks_faults --orders 5000 --rows target/faults.jsonl      # four times: 20,000 of each cell

Question: how many orders are lost, doubled or stuck, and does each chord fire once? Asked of Greenlane: none, and all.
Expected of stock Celery with its safest settings: calls that were in flight at a SIGKILL are made twice.

One order in ten each is plain with a priority; has an ETA; has a far `expires`; calls `self.retry` twice; is tried
again twice by `autoretry_for`; is a chain of three; a chord of three and a body; expires before its ETA; is revoked
before its ETA; has a link. Two types of tasks, all with results in Redis, ten merchants of which one is slow. Faults,
in turn, as shares of the orders are published: SIGKILL of one worker, of the other, of both; connections to the broker
reset for 1.5 s; SIGKILL of the broker, which is started again; SIGTERM and a new start of a worker. The publisher
stands still while the broker is away: what it published is certain. On Redis the results are away with the broker.

`lost`: effects that never came and of which no message is left. `twice`: effects that came more than once. `stuck`: a
message is left when all has come to rest. `dead`: a dead letter. `no result`: the effect came, and its result is no
success. `expired`, `revoked`: ran all the same; a revoke is a broadcast, and who is away does not hear it. Exit code 1:
Greenlane lost, doubled or kept something, or ran an expired one. With `--rows FILE` a run adds its rows to the file,
and the table is the sum of all that are there: 20,000 orders take one run of six minutes for each cell, or shorter
ones. It does not show results that a dead backend has forgotten, nor networks that swallow
(systems/pos/conservation.md has those).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import dataclasses
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from celery import Celery, chain, chord
from celery._state import _set_task_join_will_block
from kombu import Connection

from bench.tasks_program import Merchant, Program, made
from tests.where import IMPORT_PATH, ROOT

QUEUE: Final = "shop"
WORKERS: Final = 2
SLOTS: Final = 100
KINDS: Final = (
    "plain", "eta", "expires", "retry", "autoretry", "chain", "chord", "expired", "revoked", "link",
)  # fmt: skip
_APP: Final = "bench.tasks_program:app"
_CELERY: Final = ("-Q", QUEUE, "-l", "WARNING", "--without-gossip")
#: No progress for so long, though something is open: it is stuck. Longer than Redis takes to give an order back, and
#: than a breaker stays open (a minute and a fifth): on a busy machine whole merchants wait behind one.
_PATIENCE_S: Final = 100.0
_QUIET_S: Final = 1.0
_END_S: Final = 15.0
_ROUND: Final = 10_000

# The conservation harness: brokers that are killed and come back, workers that are started again.
sys.path.insert(0, str(ROOT / "systems" / "pos"))
from greenlane_tools.lab.processes import StartFailed  # noqa: E402
from greenlane_tools.lab.relay import Cable, Relays  # noqa: E402
from pos.conservation.brokers import RedisQueues, SharedRabbitMQ  # noqa: E402
from pos.conservation.contenders import Worker  # noqa: E402
from pos.conservation.servers import Redis  # noqa: E402


@dataclass
class Books:
    """What was published: effects that must come, results that must be there, and what must not run."""

    effects: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)

    def must(self, *names: str) -> None:
        """These must have their effect, once."""
        self.effects += names


@dataclass(frozen=True)
class Row:
    """One contender at one broker."""

    contender: str
    broker: str
    orders: int
    calls: int
    lost: int
    twice: int
    stuck: int
    dead: int
    chords: int
    chords_once: int
    no_result: int
    expired: int
    revoked: int
    faults: int
    seconds: float
    examples: tuple[str, ...] = ()

    @property
    def even(self) -> bool:
        """Nothing was lost, doubled, kept, given up or run too late, and each chord fired once."""
        wrong = (self.lost, self.twice, self.stuck, self.dead, self.no_result, self.expired)
        return not any(wrong) and self.chords == self.chords_once


# --- brokers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broker:
    """A broker that is struck. `open_now`: messages that wait or that somebody has; `left` takes their headers."""

    port: int
    url_at: Callable[[int], str]
    results_at: Callable[[int], str]
    kill: Callable[[], object]
    restart: Callable[[], object]
    open_now: Callable[[], int]
    left: Callable[[], Iterator[tuple[str, Mapping[str, Any]]]]


@contextlib.contextmanager
def rabbitmq(folder: Path) -> Iterator[Broker]:
    """RabbitMQ; results are in a Redis that nobody strikes."""
    results = Redis(folder / "results")
    with SharedRabbitMQ(folder / "broker") as node, results.running():

        def depths() -> dict[str, tuple[int, int]]:
            return {name: depth for name, depth in node.depths().items() if name.startswith(QUEUE)}

        def left() -> Iterator[tuple[str, Mapping[str, Any]]]:
            names = list(depths())
            with Connection(node.url) as connection:
                for name in names:
                    while message := connection.default_channel.basic_get(name, no_ack=True):
                        yield name, message.headers

        yield Broker(
            node.port, node.url_at, lambda _port: results.url, node.kill, node.restart,
            lambda: sum(sum(depth) for name, depth in depths().items() if not name.endswith(".dead")), left,
        )  # fmt: skip


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[Broker]:
    """Redis, with the results in its second database."""
    node = RedisQueues(folder / "broker")
    with node.running():

        def waiting() -> dict[str, int]:
            return {name: count for name, count in node.waiting().items() if name.startswith((QUEUE, "unacked"))}

        def left() -> Iterator[tuple[str, Mapping[str, Any]]]:
            for name, count in waiting().items():
                for headers in node.read(name) if count else ():
                    yield name, headers

        yield Broker(
            node.port, node.url_at, lambda port: node.url_at(port).removesuffix("0") + "1", node.kill, node.restart,
            lambda: sum(count for name, count in waiting().items() if not name.endswith(".dead")), left,
        )  # fmt: skip


BROKERS: Final = {"rabbitmq": rabbitmq, "redis": redis}


# --- contenders -------------------------------------------------------------------------------------------------------


def command(contender: str, name: str, broker: str, store: Path) -> list[str]:
    """How a worker is started."""
    if contender == "celery-threads":
        celery = [sys.executable, "-m", "celery", "-A", _APP, "worker", "-P", "threads", "-c", str(SLOTS)]
        return [*celery, "-n", f"{name}@%h", *_CELERY]
    greenlane = [sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())", "celery"]
    options = ["--slots", str(SLOTS), "--key", "kwargs.merchant", "--task-store", f"sqlite:///{store}"]
    options += ["--task-store-lease-s", "5", "--task-return-s", "1", "--task-retry-s", "0.1"]
    options += ["--task-attempts", "10", "--task-shutdown-s", "10"]
    if broker == "redis":  # an order stays in a worker for less than the visibility timeout
        options += ["--task-parked-most-s", "2", "--task-shutdown-s", "4"]
    green = ["--green"] if contender == "greenlane-green" else []
    return [*greenlane, *green, _APP, *options, "--", "-n", f"{name}@%h", *_CELERY]


CONTENDERS: Final = ("greenlane", "greenlane-green", "celery-threads")


class Site:
    """Two workers at a broker, behind a relay."""

    def __init__(self, folder: Path, contender: str, kind: str, broker: Broker, to_broker: Any) -> None:
        self.folder, self.broker, self.to_broker = folder, broker, to_broker
        book = folder / "book"
        book.mkdir()
        self.program = Program(broker.url_at(to_broker.port), broker.results_at(to_broker.port), QUEUE, str(book))
        self.merchant = Merchant(self.program)
        own = Program(broker.url_at(broker.port), broker.results_at(broker.port), QUEUE, str(book))
        #: What the publisher uses: past the relay.
        self.app: Celery = made(own)
        environment = {"PYTHONUNBUFFERED": "1", "C_FORCE_ROOT": "1", "GREENLANE_CONFIG": ""}
        environment |= self.program.environment()
        self.workers = [
            Worker(command(contender, f"w{number}", kind, folder / "store.db"), environment, folder / f"w{number}.log")
            for number in range(WORKERS)
        ]

    def wait(self, seconds: float) -> None:
        """Let time pass; workers that died are started again."""
        until = time.monotonic() + seconds
        while True:
            for worker in self.workers:
                worker.look()
            if time.monotonic() >= until:
                return
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))

    def wait_ready(self) -> None:
        """Until both answer a ping."""
        until = time.monotonic() + 60
        while len(self.app.control.ping(timeout=1) or ()) < WORKERS:
            if time.monotonic() > until:
                said = self.workers[0].process.said()
                raise StartFailed(f"start the workers: no answer after 60 s; one said:\n{said}")
            self.wait(0.2)

    def end(self) -> None:
        """SIGTERM to both, and SIGKILL to what is left."""
        for worker in self.workers:
            worker.ask_to_end()
        until = time.monotonic() + _END_S
        for worker in self.workers:
            worker.process.wait(max(0.0, until - time.monotonic()))
        for worker in self.workers:
            worker.kill()


# --- faults -----------------------------------------------------------------------------------------------------------


def _kill(*numbers: int) -> Callable[[Site], None]:
    def strike(site: Site) -> None:
        for number in numbers:
            site.workers[number].kill()

    return strike


def _blink(site: Site) -> None:
    site.to_broker.set(Cable.CUT)
    site.wait(1.5)
    site.to_broker.set(Cable.WELL)


def _broker(site: Site) -> None:
    site.broker.kill()
    site.wait(1.0)
    site.broker.restart()


def _broker_and_worker(site: Site) -> None:
    site.broker.kill()
    site.wait(0.5)
    site.workers[1].kill()
    site.broker.restart()


def _deploy(site: Site) -> None:
    worker = site.workers[0]
    worker.ask_to_end()
    worker.process.wait(_END_S)
    worker.kill()
    worker.start()


#: One round, in equal distances.
FAULTS: Final = (_kill(0), _blink, _kill(1), _broker, _deploy, _kill(0, 1), _blink, _broker_and_worker)


# --- orders -----------------------------------------------------------------------------------------------------------


def publish(app: Celery, number: int, books: Books) -> str:
    """Publish one order; gives the id of what is to be revoked, or ""."""
    name, kind = f"o{number}", KINDS[number % len(KINDS)]
    merchant = f"m{number // len(KINDS) % 10}"

    def task(task: str, part: str = "") -> Any:
        called = name + part
        return app.signature(task, kwargs={"name": called, "merchant": merchant}, task_id=called)

    now = datetime.now(UTC)
    match kind:
        case "plain":
            task("charge").apply_async(priority=number // len(KINDS) % 10)
        case "eta":
            task("charge").apply_async(countdown=1 + number // len(KINDS) % 5)
        case "expires":
            task("mail").apply_async(expires=now + timedelta(hours=1))
        case "retry":
            task("retried").apply_async()
        case "autoretry":
            task("autoretried").apply_async()
        case "chain":
            chain(task("charge", ".a"), task("mail", ".b"), task("charge", ".c")).apply_async()
            books.must(f"{name}.a", f"{name}.b", f"{name}.c")
        case "chord":
            chord([task("charge", f".{part}") for part in "abc"], task("mail", ".body")).apply_async()
            books.must(*(f"{name}.{part}" for part in "abc"), f"{name}.body")
            books.bodies.append(f"{name}.body")
        case "link":
            task("mail").apply_async(link=task("charge", ".link"))
            books.must(f"{name}.link")
        case "expired":
            task("charge").apply_async(eta=now + timedelta(seconds=4), expires=now + timedelta(seconds=2))
        case "revoked":
            task("charge").apply_async(countdown=6)
    if kind in ("expired", "revoked"):
        getattr(books, kind).append(name)
    elif kind not in ("chain", "chord"):
        books.must(name)
    return name if kind == "revoked" else ""


def published(site: Site, orders: int, per_s: float, books: Books) -> int:
    """Publish all, and strike between; gives how many faults there were."""
    strikes = [*FAULTS] * max(1, orders // _ROUND)
    begun, paused, struck, revoked = time.monotonic(), 0.0, 0, list[str]()
    looked = revoked_s = begun
    for number in range(orders):
        if struck < len(strikes) and number > (struck + 0.5) * orders / len(strikes):
            before = time.monotonic()
            strikes[struck](site)
            struck += 1
            paused += time.monotonic() - before
        if order := publish(site.app, number, books):
            revoked.append(order)
        now = time.monotonic()
        if now - revoked_s > 1 and revoked:
            site.app.control.revoke(revoked)
            revoked, revoked_s = [], now
        ahead = begun + paused + number / per_s - now
        if ahead > 0 or now - looked > 0.1:
            site.wait(max(0.0, ahead))
            looked = time.monotonic()
    if revoked:
        site.app.control.revoke(revoked)
    for strike in strikes[struck:]:
        strike(site)
    return len(strikes)


def rest(site: Site, books: Books) -> None:
    """Waits until every effect has come and no message is left, or until nothing changes."""
    missing, open_before, since = set(books.effects), -1, time.monotonic()
    while time.monotonic() - since < _PATIENCE_S:
        site.wait(_QUIET_S)
        came = {name for name, count in site.merchant.effects(list(missing)).items() if count}
        open_now = site.broker.open_now()
        if came or open_now != open_before:
            since = time.monotonic()
        missing, open_before = missing - came, open_now
        if not missing and not open_now:
            return


def run(folder: Path, contender: str, kind: str, orders: int, per_s: float) -> Row:
    """One contender at one broker."""
    books, begun = Books(), time.monotonic()
    with BROKERS[kind](folder) as broker, Relays() as relays:
        site = Site(folder, contender, kind, broker, relays.to(broker.port))
        try:
            site.wait_ready()
            faults = published(site, orders, per_s, books)
            rest(site, books)
            site.end()
        finally:
            _kill(*range(WORKERS))(site)
        left = list(broker.left())
        states = _states(site.app, books.effects)
        site.app.close()
        gc.collect()  # results of Celery's unsubscribe when they are freed
    effects = site.merchant.effects([*books.effects, *books.expired, *books.revoked])
    waiting = {_name_of(headers) for queue, headers in left if not queue.endswith(".dead")}
    dead = {_name_of(headers) for queue, headers in left if queue.endswith(".dead")}
    missing = {name for name in books.effects if not effects[name]}
    twice = [name for name, count in effects.items() if count > 1]
    lost = sorted(missing - waiting - dead)
    silent = [name for name in books.effects if effects[name] and states[name] != "SUCCESS"]
    return Row(
        contender, kind, orders, len(books.effects), len(lost), len(twice), len(waiting), len(dead - waiting),
        len(books.bodies), sum(effects[name] == 1 for name in books.bodies), len(silent),
        *(sum(effects[name] > 0 for name in names) for names in (books.expired, books.revoked)),
        faults, round(time.monotonic() - begun, 1),
        (
            *lost[:4], *twice[:4], *sorted(waiting)[:4], *sorted(dead)[:4],
            *(f"{name}: {states[name]}" for name in silent[:4]),
        ),
    )  # fmt: skip


def _states(app: Celery, names: list[str]) -> dict[str, str]:
    """What the result backend says of each."""
    backend, found = app.backend, {}
    for begin in range(0, len(names), 1000):
        some = names[begin : begin + 1000]
        kept = backend.mget([backend.get_key_for_task(name) for name in some])
        found |= {name: json.loads(each)["status"] if each else "none" for name, each in zip(some, kept, strict=True)}
    return found


def _name_of(headers: Mapping[str, Any]) -> str:
    try:
        return str(ast.literal_eval(headers["kwargsrepr"])["name"])
    except (KeyError, ValueError, SyntaxError):
        return str(headers.get("id"))


# --- the command ------------------------------------------------------------------------------------------------------


def table(rows: list[Row]) -> str:
    """As markdown."""
    lines = [
        "| broker | worker | orders | calls | faults | lost | twice | stuck | dead | chords fired once | no result "
        "| expired | revoked | s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        once = f"{row.chords_once} of {row.chords}"
        cells = (
            row.broker, f"`{row.contender}`", row.orders, row.calls, row.faults, row.lost, row.twice, row.stuck,
            row.dead, once, row.no_result, row.expired, row.revoked, f"{row.seconds:.0f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def together(rows: list[Row]) -> list[Row]:
    """One row for each contender at each broker: the sums of its runs."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        cells.setdefault((row.broker, row.contender), []).append(row)
    return [
        Row(**{
            each.name: getattr(runs[0], each.name) if each.name in ("contender", "broker")
            else sum((getattr(run, each.name) for run in runs), type(getattr(runs[0], each.name))())
            for each in dataclasses.fields(Row)
        })
        for runs in cells.values()
    ]  # fmt: skip


def kept(file: Path | None, rows: list[Row]) -> list[Row]:
    """Add rows to a file and give all that it has; None = there is no file."""
    if file is None:
        return rows
    with file.open("a") as out:
        out.writelines(json.dumps(vars(row)) + "\n" for row in rows)
    read = [json.loads(line) for line in file.read_text().splitlines()]
    return [Row(**{**each, "examples": tuple(each["examples"])}) for each in read]


def main() -> int:
    """Run the cells and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=2_000, help="of each cell (2000)")
    parser.add_argument("--per-s", type=float, default=100.0, help="orders published a second (100)")
    parser.add_argument("--brokers", default="rabbitmq,redis")
    parser.add_argument("--contenders", default="greenlane,celery-threads", help=f"of {','.join(CONTENDERS)}")
    parser.add_argument("--out", type=Path, help="keep logs in this folder")
    parser.add_argument("--rows", type=Path, help="add rows to this file, and sum over it")
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    os.environ["PYTHONPATH"] = IMPORT_PATH
    _set_task_join_will_block(True)  # nobody waits here for results: none is subscribed to
    rows = []
    with contextlib.ExitStack() as stack:
        folder = said.out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gl-tasks-")))
        for broker in said.brokers.split(","):
            for contender in said.contenders.split(","):
                own = folder.resolve() / f"{contender}-{broker}"
                own.mkdir(parents=True)
                rows.append(run(own, contender, broker, said.orders, said.per_s))
                print(f"{contender}, {broker}: {rows[-1]}", file=sys.stderr, flush=True)
    rows = together(kept(said.rows, rows))
    print(json.dumps([vars(row) for row in rows], indent=1) if said.json else table(rows))
    return 0 if all(row.even for row in rows if row.contender.startswith("greenlane")) else 1


if __name__ == "__main__":
    sys.exit(main())
