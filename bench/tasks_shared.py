"""What a limit that workers share through the store costs, and how much of it they use.

    python -m bench.tasks_shared [--workers 3] [--limit 20] [--seconds 15] [--stores sqlite,redis,postgres]

Question: do the workers together ever have more calls at once at a merchant than the limit says, how much of it do they
use while orders wait, and what does it cost them? Asked: never more, 0.95 of it or more; the price is printed.
Expected: four questions a second from each worker, whatever the load, and 0.97 of the limit, since a share changes
hands within a quarter of a second.

Each worker is a `greenlane celery` with 40 threads; RabbitMQ. 300 ms a call. The orders of one merchant are all there
before the workers start, more than they can do. Contenders: `own`, a limit of each worker's own, the shared one divided
by the workers; `shared`. `at_once_most`: calls in progress of all workers at one moment, from the tasks' own notes;
`used_frac`: calls in progress on average over the limit, in the window; `spread_frac`: the least over the most that a
worker did; `asked_per_s`: questions about shares to the store, of all workers. Workers start one after the other.
With fewer calls than workers (`--limit 1`) the limit goes round, and stands still while it changes hands.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from celery import Celery
from kombu import Connection

from greenlane_work.worker.confirms import Confirms

QUEUE: Final = "shared"
SLOTS: Final = 40
CALL_S: Final = 0.3
_WARM_S: Final = 2.0
_LEAST_FRAC: Final = 0.95

app = Celery("shared", broker=os.environ.get("BROKER", "memory://"))
app.conf.update(
    task_acks_late=True, task_ignore_result=True, task_default_queue=QUEUE,
    broker_transport_options={"confirm_publish": True}, broker_connection_retry_on_startup=True,
)  # fmt: skip


@app.task(name="order")
def order(merchant: str) -> None:
    """Calls its merchant, and notes when that began and ended."""
    began = time.monotonic()
    time.sleep(CALL_S)
    notes = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND)
    os.write(notes, f"{os.getpid()} {began:.6f} {time.monotonic():.6f}\n".encode())
    os.close(notes)


def command(control: Path) -> list[str]:
    """A worker."""
    greenlane = "import sys; from greenlane.cli.main import main; sys.exit(main())"
    return [
        sys.executable, "-c", greenlane, "celery", "bench.tasks_shared:app", "--slots", str(SLOTS),
        "--key", "kwargs.merchant", "--control-dir", str(control),
        "--", "-Q", QUEUE, "-l", "WARNING", "--prefetch-multiplier", "1",
    ]  # fmt: skip


def publish(url: str, orders: int, prefix: str) -> None:
    """All of them, as quickly as the broker confirms them."""
    with Connection(url) as connection, app.amqp.Producer(connection) as producer:
        confirms = Confirms(producer.channel)
        for number in range(orders):
            made = app.amqp.as_task_v2(f"{prefix}-{number}", "order", (), {"merchant": "taco"})
            producer.publish(
                made.body, exchange="", routing_key=QUEUE, serializer="json", delivery_mode=2, headers=made.headers,
                declare=[app.amqp.queues[QUEUE]] if not number else [], **made.properties,
            )  # fmt: skip
            confirms.sending()
            if number % 500 == 499:
                confirms.wait(30)
        confirms.wait(30)


def measure(url: str, store: str, workers: int, limit: int, seconds: float, shared: bool) -> dict[str, Any]:
    """One run, as a row."""
    from greenlane.control.client import ask, processes
    from greenlane_tools.lab.processes import cpu_ns, descendants
    from tests.child import Child
    from tests.where import IMPORT_PATH

    rule = f"shared:{limit} most_frac:1" if shared else f"limit:{max(limit // workers, 1)} most_frac:1"
    publish(url, round(limit / CALL_S * (seconds + 20)), f"{time.monotonic_ns()}")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as block:
        notes, control = Path(folder) / "notes", Path(folder) / "control"
        notes.touch()
        control.mkdir()
        env = {
            "BROKER": url, "NOTES": str(notes), "PYTHONPATH": IMPORT_PATH, "GREENLANE_CONFIG": "",
            "GREENLANE_TASK_STORE": store.replace("FOLDER", folder), "C_FORCE_ROOT": "1",
            "GREENLANE_TASK_RULES": f"taco={rule}",
        }  # fmt: skip
        children = [block.enter_context(Child(command(control), env=env)) for _ in range(workers)]
        until = time.monotonic() + 60
        while len({line.split()[0] for line in notes.read_text().splitlines()}) < workers:
            if time.monotonic() > until:
                raise RuntimeError("start the workers: some did no order:\n" + "\n".join(c.output for c in children))
            time.sleep(0.1)
        time.sleep(_WARM_S)

        def totals() -> tuple[int, int]:
            shown = (ask(found.socket, {"do": "show"}) for found in processes(control))
            asked = sum(found["tasks"]["totals"]["shares_asked"] for found in shown)
            return sum(cpu_ns(descendants(child.pid)) for child in children), asked

        before, began = totals(), time.monotonic()
        time.sleep(seconds)
        after, ended = totals(), time.monotonic()
        lines = [line.split() for line in notes.read_text().splitlines()]
    calls = [(int(pid), float(start), float(end)) for pid, start, end in lines]
    return _row(calls, began, ended, limit) | {
        "asked_per_s": round((after[1] - before[1]) / (ended - began), 1),
        "cpu_ms_per_job": round((after[0] - before[0]) / 1e6 / sum(began <= end <= ended for *_, end in calls), 2),
    }


def _row(calls: list[tuple[int, float, float]], began: float, ended: float, limit: int) -> dict[str, Any]:
    changes = sorted([(start, 1) for _, start, _ in calls] + [(end, -1) for *_, end in calls])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    busy_s = sum(max(0.0, min(end, ended) - max(start, began)) for _, start, end in calls)
    by_worker = Counter(pid for pid, _, end in calls if began <= end <= ended)
    return {
        "done_per_s": round(by_worker.total() / (ended - began), 1), "at_once_most": most,
        "used_frac": round(busy_s / (ended - began) / limit, 3),
        "spread_frac": round(min(by_worker.values()) / max(by_worker.values()), 2),
    }  # fmt: skip


@contextlib.contextmanager
def _store(kind: str) -> Iterator[str]:
    from tests.servers import Postgres, Redis

    if kind == "sqlite":
        yield "sqlite:///FOLDER/orders.db"
    else:
        with Redis("--appendonly", "yes") if kind == "redis" else Postgres() as server:
            yield server.url


def main() -> int:
    """Run each store with both kinds of limit; exit code 1: a shared limit was passed, or not used."""
    from tests.servers import RabbitMQ

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--limit", type=int, default=20, help="calls at once of all workers (20)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each run (15)")
    parser.add_argument("--stores", default="sqlite,redis,postgres")
    said = parser.parse_args()
    held = True
    with RabbitMQ() as broker:
        app.conf.broker_url = broker.url
        for kind in said.stores.split(","):
            for shared in (False, True):
                with _store(kind) as store:
                    row = measure(broker.url, store, said.workers, said.limit, said.seconds, shared)
                print(json.dumps({"store": kind, "limit": "shared" if shared else "own", **row}), flush=True)
                if shared:
                    held &= row["at_once_most"] <= said.limit and row["used_frac"] >= _LEAST_FRAC
                with Connection(broker.url) as connection:
                    connection.default_channel.queue_purge(QUEUE)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
