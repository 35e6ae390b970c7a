"""What 72,000 parked orders of one dead merchant cost the orders of the others, and the broker.

    python -m bench.tasks_parked [--orders 72000] [--seconds 60] [--broker rabbitmq]

Question: how late are healthy orders, from publication to the end of their call, beside a merchant that has been down
for two hours at ten orders a second, and how much CPU do broker and worker take? Asked: a p95 within 1.1 of that
without it. Expected: equal, since parked orders wait at the broker and come back twenty a second.

Open loop: 40 orders a second to ten merchants of 50 ms, one worker of threads with 60 slots. First without the dead
one's orders, then those are published and handed back by the worker until all but a few wait at the broker, then the
same load again, then without again at a broker that is empty: the two without are one row. It does not show a worker
that starts with them in its queue, before healthy orders: those wait until it has handed them back (`handed back`).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from celery import Celery
from kombu import Connection

from greenlane_work.worker.confirms import Confirms

MODULE: Final = "bench.tasks_parked:app"
QUEUE: Final = "parked"
SLOTS: Final = 60
PER_S: Final = 40.0
#: This many may be in the worker or on their way: what it parks itself, and what comes back.
_HERE_MOST: Final = 2_000
_SETTLE_S: Final = 10.0

app = Celery("parked", broker=os.environ.get("BROKER", "memory://"))
app.conf.update(
    task_acks_late=True, task_ignore_result=True, task_default_queue=QUEUE, worker_prefetch_multiplier=1,
    broker_transport_options={"confirm_publish": True} if os.environ.get("BROKER", "").startswith("amqp") else {},
    broker_connection_retry_on_startup=True,
)  # fmt: skip


@app.task(name="order")
def order(merchant: str, published: float) -> None:
    """Calls its merchant."""
    if merchant == "dead":
        raise ConnectionRefusedError("nobody listens")
    time.sleep(0.05)
    notes = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND)
    os.write(notes, f"{time.monotonic() - published:.6f}\n".encode())
    os.close(notes)


def command() -> list[str]:
    """The worker: an order of a merchant that is down is tried again for ever."""
    greenlane = "import sys; from greenlane.cli.main import main; sys.exit(main())"
    return [
        sys.executable, "-c", greenlane, "celery", MODULE, "--slots", str(SLOTS), "--key", "kwargs.merchant",
        "--task-retries", "1000", "--", "-Q", QUEUE, "-l", "WARNING",
    ]  # fmt: skip


class Phase:
    """One stretch of healthy load: latencies, and CPU of broker and worker."""

    def __init__(self, url: str, notes: Path, seconds: float, cpu: Callable[[], tuple[int, int]]) -> None:
        before, began, known = cpu(), time.monotonic(), len(_lines(notes))
        sent = round(seconds * PER_S)
        with app.connection_for_write(url) as connection, app.amqp.Producer(connection) as producer:
            for number in range(sent):
                due = began + number / PER_S
                time.sleep(max(0.0, due - time.monotonic()))
                order.apply_async((), {"merchant": f"m{number % 10}", "published": due}, producer=producer)
        until = time.monotonic() + 60
        while len(_lines(notes)) < known + sent and time.monotonic() < until:
            time.sleep(0.1)
        took_s = time.monotonic() - began
        self.ms = [float(line) * 1e3 for line in _lines(notes)[known:]]
        self.undone = sent - len(self.ms)
        self.cores = tuple((now - then) / 1e9 / took_s for now, then in zip(cpu(), before, strict=True))


def _lines(notes: Path) -> list[str]:
    return notes.read_text().splitlines()


def publish_dead(url: str, orders: int) -> None:
    """As quickly as the broker confirms them, 500 at a time."""
    message = app.amqp.as_task_v2
    with Connection(url) as connection, app.amqp.Producer(connection, auto_declare=False) as producer:
        confirms = None if url.startswith("redis") else Confirms(producer.channel)
        for number in range(orders):
            made = message(f"dead-{number}", "order", (), {"merchant": "dead", "published": 0.0})
            producer.publish(
                made.body, exchange="", routing_key=QUEUE, serializer="json", delivery_mode=2, headers=made.headers,
                **made.properties,
            )  # fmt: skip
            if confirms is not None:
                confirms.sending()
                if number % 500 == 499:
                    confirms.wait(30)


def waiting(url: str, queues: Iterator[str] | list[str]) -> int:
    """Messages that wait in these queues."""
    with Connection(url) as connection:
        if url.startswith("redis"):
            client = connection.default_channel.client
            return sum(int(client.zcard(name) if name.endswith(".later") else client.llen(name)) for name in queues)
        found = 0
        for name in queues:
            channel = connection.channel()
            try:
                found += int(channel.queue_declare(name, passive=True).message_count)
                channel.close()
            except connection.channel_errors:
                continue
        return found


def later(url: str) -> list[str]:
    """Where returned orders wait."""
    if url.startswith("redis"):
        return [f"{QUEUE}.later"]
    return [f"{QUEUE}.later.{5 * 2**doubling}s" for doubling in range(17)]


def measure(url: str, pids: Callable[[], list[int]], orders: int, seconds: float) -> list[dict[str, Any]]:
    """One worker through all phases; a row each."""
    from greenlane_tools.lab.processes import cpu_ns, descendants
    from tests.child import Child
    from tests.where import IMPORT_PATH

    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        notes.touch()
        env = {"BROKER": url, "NOTES": str(notes), "PYTHONPATH": IMPORT_PATH, "GREENLANE_CONFIG": ""}
        with Child(command(), env=env) as worker:

            def cpu() -> tuple[int, int]:
                return cpu_ns(pids()), cpu_ns(descendants(worker.pid))

            while not app.control.ping(timeout=1):
                if cpu_ns([worker.pid]) == 0:
                    raise RuntimeError(f"start the worker: it ended and said:\n{worker.output}")
            Phase(url, notes, 3.0, cpu)
            without = [Phase(url, notes, seconds / 2, cpu)]
            began = time.monotonic()
            publish_dead(url, orders)
            published_s = time.monotonic() - began
            until = began + 180
            while waiting(url, later(url)) < orders - _HERE_MOST and time.monotonic() < until:
                time.sleep(0.5)
            handed_s = time.monotonic() - began
            time.sleep(_SETTLE_S)
            parked = waiting(url, later(url))
            beside = Phase(url, notes, seconds, cpu)
            _purge(url)
            time.sleep(_SETTLE_S)
            without.append(Phase(url, notes, seconds / 2, cpu))
    rows = [_row("without", without), _row("beside", [beside])]
    rows[1] |= {"at_the_broker": parked, "published_s": round(published_s, 1), "handed_back_s": round(handed_s, 1)}
    return rows


def _purge(url: str) -> None:
    with Connection(url) as connection:
        for name in later(url):
            channel = connection.channel()
            try:
                if url.startswith("redis"):
                    channel.client.delete(name)
                else:
                    channel.queue_purge(name)
            except connection.channel_errors:
                continue


def _row(name: str, phases: list[Phase]) -> dict[str, Any]:
    ms = [each for phase in phases for each in phase.ms]
    cuts = statistics.quantiles(ms, n=100)
    broker, worker = (statistics.mean(phase.cores[place] for phase in phases) for place in (0, 1))
    return {
        "dead_merchant": name, "orders": len(ms), "undone": sum(phase.undone for phase in phases),
        **{f"p{cut}_ms": round(cuts[cut - 1], 1) for cut in (50, 95, 99)},
        "broker_cores": round(broker, 3), "worker_cores": round(worker, 3),
    }  # fmt: skip


def main() -> int:
    """Run it and print a row for each phase. Exit code 1: later than asked."""
    from greenlane_tools.lab.processes import descendants
    from tests.servers import RabbitMQ, Redis

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=72_000, help="of the dead merchant (72000)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of healthy load, with and without (60)")
    parser.add_argument("--broker", choices=("rabbitmq", "redis"), default="rabbitmq")
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    with RabbitMQ() if said.broker == "rabbitmq" else Redis() as server:
        app.conf.broker_url = server.url
        rows = measure(server.url, lambda: descendants(server.pid), said.orders, said.seconds)
    frac = rows[1]["p95_ms"] / rows[0]["p95_ms"]
    for row in rows:
        print(json.dumps(row))
    print(f"p95 beside a dead merchant: {frac:.2f} of without it (asked: at most 1.10)")
    return 0 if frac <= 1.1 and not any(row["undone"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
