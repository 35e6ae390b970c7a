"""CPU permits in a Celery worker of threads: what do heavy tasks cost the light ones beside them?

Question: with tasks of 30 ms of pure Python beside light ones that mostly wait for a merchant, how long does a light
task take, with permits, without, and under Celery's own thread pool? Expected: the heavy ones queue for each other, so
a light one meets one rival for the interpreter and not many; where all tasks are light, permits cost nothing.

    python -m bench.permits_in_work
    python -m bench.permits_in_work --heavy-per-s 0 --light-per-s 150 --light-ms 6       # light tasks alone

Open loop: light tasks at equal distances, heavy ones some at a time as a batch publishes them; latency from publication
to the end of the task; contenders in turns. It does not show upstream limits (one key, more slots than are needed) nor
several workers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from celery import Celery

MODULE: Final = "bench.permits_in_work:app"
QUEUE: Final = "mixed"
MERCHANT_MS: Final = 50.0
SLOTS: Final = 60
#: `greenlane-on-8ms`: with another limit above which a phase is heavy.
CONTENDERS: Final = ("threads", "threads-0.5ms", "greenlane-off", "greenlane-on", "greenlane-on-10ms")

app = Celery("mixed", broker=os.environ.get("BROKER", "memory://"))
app.conf.update(
    task_acks_late=True, task_ignore_result=True, task_default_queue=QUEUE, worker_prefetch_multiplier=2,
    broker_transport_options={"confirm_publish": True}, broker_connection_retry_on_startup=True,
)  # fmt: skip
_own = threading.local()
if "INTERVAL_S" in os.environ:
    sys.setswitchinterval(float(os.environ["INTERVAL_S"]))


def compute(ms: float) -> None:
    """Pure Python: as many turns of a loop as took so long on an idle core."""
    total = 0
    for number in range(round(ms * float(os.environ["TURNS_PER_MS"]))):
        total += number % 7


@app.task(name="heavy")
def heavy(published: float, ms: float) -> None:
    """Computes."""
    compute(ms)
    _note("heavy", published)


@app.task(name="light")
def light(published: float, ms: float) -> None:
    """Asks the merchant."""
    import requests

    if not hasattr(_own, "http"):
        _own.http = requests.Session()
    compute(ms / 2)
    _own.http.get(os.environ["MERCHANT"], timeout=30).raise_for_status()
    compute(ms / 2)
    _note("light", published)


def _note(kind: str, published: float) -> None:
    line = f"{kind} {time.monotonic() - published:.6f}\n".encode()
    notes = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND)
    os.write(notes, line)
    os.close(notes)


class Answers(asyncio.Protocol):
    """A merchant: each request is answered after a while."""

    def connection_made(self, transport: Any) -> None:
        """Remember where to answer."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """A request; its end is its blank line."""
        for _ in range(data.count(b"\r\n\r\n")):
            asyncio.get_running_loop().call_later(MERCHANT_MS / 1e3, self.answer)

    def answer(self) -> None:
        """200."""
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


async def _merchant(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Answers, "127.0.0.1", port)
    await server.serve_forever()


def turns_per_ms() -> float:
    """The fastest of many tries: of this machine when nobody disturbs it."""
    best = float("inf")
    for _ in range(40):
        began = time.perf_counter()
        total = 0
        for number in range(50_000):
            total += number % 7
        best = min(best, time.perf_counter() - began)
    return 50_000 / best / 1e3


def command(contender: str) -> list[str]:
    """How a contender's worker is started."""
    celery = ["-Q", QUEUE, "-l", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    if contender.startswith("threads"):
        return [sys.executable, "-m", "celery", "-A", MODULE, "worker", "-P", "threads", "-c", str(SLOTS), *celery]
    greenlane = "import sys; from greenlane.cli.main import main; sys.exit(main())"
    _, mode, *limit = contender.split("-")
    heavy_ms = ["--heavy-ms", limit[0].removesuffix("ms")] if limit else []
    return [
        sys.executable, "-c", greenlane, "celery", MODULE, "--mode", mode, *heavy_ms, "--slots", str(SLOTS), "--",
        "-Q", QUEUE, "-l", "INFO",
    ]  # fmt: skip


def run(
    contender: str, arguments: argparse.Namespace, environment: dict[str, str]
) -> tuple[list[tuple[str, float]], float]:
    """(kind, seconds) of each task after the warm-up, and the worker's CPU ms a task."""
    from tests.child import Child

    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        notes.touch()
        env = {**environment, "NOTES": str(notes), **({"INTERVAL_S": "0.0005"} if contender == "threads-0.5ms" else {})}
        with Child(command(contender), env=env) as worker:
            worker.wait_output(r"ready\.", timeout_s=40)
            warm = publish(env["BROKER"], arguments, arguments.warm_s)
            before = _cpu_s(worker.pid)
            sent = publish(env["BROKER"], arguments, arguments.seconds)
            until = time.monotonic() + 15
            while len(notes.read_text().splitlines()) < warm + sent and time.monotonic() < until:
                time.sleep(0.05)
            cpu_s = _cpu_s(worker.pid) - before
        found = [line.split() for line in notes.read_text().splitlines()]
    if len(found) < warm + sent:
        print(f"{contender}: {warm + sent - len(found)} tasks did not end", file=sys.stderr)
    return [(kind, float(seconds)) for kind, seconds in found[warm:]], cpu_s * 1e3 / max(sent, 1)


def publish(url: str, arguments: argparse.Namespace, seconds: float) -> int:
    """Open loop; how many."""
    began = time.monotonic()
    due = [(number // at_once * at_once / per_s, task, ms) for task, per_s, ms, at_once in (
        (heavy, arguments.heavy_per_s, arguments.heavy_ms, arguments.burst),
        (light, arguments.light_per_s, arguments.light_ms, 1),
    ) if per_s for number in range(round(seconds * per_s))]  # fmt: skip
    with app.connection_for_write(url) as connection, app.amqp.Producer(connection) as producer:
        for at_s, task, ms in sorted(due, key=lambda one: one[0]):
            time.sleep(max(0.0, began + at_s - time.monotonic()))
            task.apply_async((began + at_s, ms), producer=producer)
    return len(due)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rows(samples: dict[tuple[str, str], list[float]], cpu_ms: dict[str, list[float]]) -> list[dict[str, object]]:
    """One a contender and kind of task."""
    found = []
    for (contender, kind), seconds in samples.items():
        cuts = statistics.quantiles(seconds, n=100) if len(seconds) > 1 else [seconds[0]] * 99
        named = {f"p{cut}_ms": round(cuts[cut - 1] * 1e3, 1) for cut in (50, 95, 99)}
        cpu = round(statistics.mean(cpu_ms[contender]), 2)
        found.append(
            {"contender": contender, "endpoint": kind, **named, "samples": len(seconds), "cpu_ms_per_job": cpu}
        )
    return found


def main() -> None:
    """Run the contenders in turns and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--seconds", type=float, default=6.0, help="per cell")
    parser.add_argument("--warm-s", type=float, default=2.0)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--heavy-per-s", type=float, default=12.0)
    parser.add_argument("--burst", type=int, default=8, help="heavy tasks that are published at once")
    parser.add_argument("--heavy-ms", type=float, default=30.0)
    parser.add_argument("--light-per-s", type=float, default=30.0)
    parser.add_argument("--light-ms", type=float, default=1.0)
    parser.add_argument("--merchant", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.merchant:
        asyncio.run(_merchant(arguments.merchant))
        return
    from greenlane_tools.lab.environment import about
    from tests.child import Child, free_port
    from tests.servers import RabbitMQ

    port = free_port()
    merchant = [sys.executable, "-m", "bench.permits_in_work", "--merchant", str(port)]
    samples: dict[tuple[str, str], list[float]] = defaultdict(list)
    cpu_ms: dict[str, list[float]] = defaultdict(list)
    with RabbitMQ() as broker, Child(merchant) as child:
        child.wait_port(port)
        environment = {
            "BROKER": broker.url,
            "MERCHANT": f"http://127.0.0.1:{port}/",
            "TURNS_PER_MS": str(turns_per_ms()),
        }
        for repetition in range(arguments.repetitions):
            for contender in arguments.contenders.split(","):
                found, cpu = run(contender, arguments, environment)
                print(f"{repetition + 1}: {contender}", file=sys.stderr)
                cpu_ms[contender].append(cpu)
                for kind, seconds in found:
                    samples[contender, kind].append(seconds)
    schema = {
        "schema": "greenlane.bench.permits-in-work/1",
        "environment": about(("celery", "kombu", "amqp")),
        "rows": rows(samples, cpu_ms),
    }
    print(json.dumps(schema, indent=1))


if __name__ == "__main__":
    main()
