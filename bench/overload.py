"""What is answered in time when more comes than can be served: `greenlane serve` beside stock servers.

    python -m bench.overload [--work sleeping|computing] [--seconds S] [--contenders NAME ...] [--json]

Question: of its capacity, how much does a service still answer within the deadline at 1.2 and 2 times the load that it
can bear? Expected: 0.95 and more where requests that would come too late are refused as they are picked up; next to
nothing where they queue (facts: FIFO without shedding answers all of them, late). A backlog cut to the deadline by hand
bounds the queue too, at 1.2; its price is that the others hang until they give up, and they come again, all at once.
uvicorn's limit counts what its loop has seen, and a loop that is blocked sees nothing.

Each contender's capacity is measured first, with eight clients for each worker (with two, those that race for the
accept queue leave workers idle, and a load by that figure would be none). The load is the same for all: multiples of
the highest capacity among them, open-loop, Poisson, new connections, work of 20 ms with a coefficient of variation
of 0.5, a deadline of 300 ms. Contenders take turns at each load, and who goes first changes. `sleeping` work blocks its
thread (or loop) without computing, so that two cores bear four workers and the generator. The first second of each run
is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

import numpy as np

from greenlane_tools.lab import processes
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson, Stream, Work

WORKERS: Final = 4
MEAN_MS: Final = 20.0
CV: Final = 0.5
DEADLINE_MS: Final = 300.0
#: Loads, as multiples of the capacity. At 0.7 nothing should be refused.
STAGES: Final = (0.7, 1.2, 2.0)
TARGET_FRAC: Final = 0.95
_WARM_S: Final = 1.0
_CLIENTS: Final = 8
_START_S: Final = 30.0

_APPLICATION: Final = """
import ctypes, time, urllib.parse
usleep = ctypes.CDLL(None).usleep  # what no monkey-patching makes cooperative
def app(environ, start_response):
    query = urllib.parse.parse_qs(environ["QUERY_STRING"])
    ms = float(query.get("ms", ["20"])[0])
    if environ["PATH_INFO"] == "/sleeping":
        usleep(int(ms * 1000))
    elif environ["PATH_INFO"] == "/computing":
        end_ns = time.thread_time_ns() + int(ms * 1e6)
        while time.thread_time_ns() < end_ns:
            sum(range(100))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return [b"ok\\n"]
async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        return await send({"type": "lifespan.shutdown.complete"})
    environ = {"QUERY_STRING": scope["query_string"].decode(), "PATH_INFO": scope["path"]}
    (body,) = app(environ, lambda status, headers: None)
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"3")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
"""
_SETTINGS: Final = f"""
workers = {WORKERS}
at_once = 1

[lanes.work]
match = ["/sleeping", "/computing"]
deadline_ms = {DEADLINE_MS}
"""
_GUNICORN: Final = (
    *("-m", "gunicorn", "--workers", str(WORKERS), "--log-level", "warning", "--no-control-socket"),
    *("--bind", "{address}"),
)
_UVICORN: Final = (
    *("-m", "uvicorn", "--workers", str(WORKERS), "--log-level", "warning", "--no-access-log"),
    *("--host", "127.0.0.1", "--port", "{port}"),
)
_SERVE: Final = ("-c", "import sys; from greenlane.cli.main import main; sys.exit(main())", "serve")
#: As many as a worker does within two thirds of the deadline.
_BOUND: Final = round(DEADLINE_MS / MEAN_MS * 2 / 3)
CONTENDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "greenlane": (*_SERVE, "app:app", "--kind", "wsgi", "--bind", "{address}"),
    "greenlane-asgi": (*_SERVE, "app:asgi", "--kind", "asgi", "--bind", "{address}"),
    "sync-4w": (*_GUNICORN, "app:app"),
    "sync-4w-backlog": (*_GUNICORN, "--backlog", str(_BOUND * WORKERS), "app:app"),
    "gthread-4w": (*_GUNICORN, "-k", "gthread", "--threads", "1", "app:app"),
    "gevent-4w": (*_GUNICORN, "-k", "gevent", "app:app"),
    "uvicorn-4w": (*_UVICORN, "app:asgi"),
    "uvicorn-4w-limit": (*_UVICORN, "--limit-concurrency", str(_BOUND), "app:asgi"),
}


@contextlib.contextmanager
def served(command: Sequence[str]) -> Iterator[str]:
    """The address of a contender that answers."""
    with tempfile.TemporaryDirectory(prefix="greenlane-") as folder:
        Path(folder, "app.py").write_text(_APPLICATION)
        Path(folder, "greenlane.toml").write_text(_SETTINGS)
        port = processes.free_port()
        address = f"127.0.0.1:{port}"
        filled = [part.replace("{address}", address).replace("{port}", str(port)) for part in command]
        child = processes.Child([sys.executable, *filled], os.environ, subprocess.DEVNULL, Path(folder))
        try:
            _await(address, child)
            yield address
        finally:
            child.end()


def _await(address: str, child: processes.Child) -> None:
    end_s = time.monotonic() + _START_S
    while time.monotonic() < end_s and child.running():
        if _asked(address, "/"):
            return
        time.sleep(0.05)
    raise SystemExit(f"a server does not answer at {address}: start it by hand to see why")


def _asked(address: str, path: str) -> bool:
    with contextlib.closing(HTTPConnection(address, timeout=10)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False


def capacity_per_s(address: str, path: str, seconds: float) -> float:
    """Requests answered by a server that always has some waiting for each worker."""
    done = [0] * (_CLIENTS * WORKERS)
    draw = np.random.default_rng(1)
    sigma = np.sqrt(np.log(1 + CV**2))
    end_s = time.monotonic() + seconds

    def ask(who: int, times_ms: Sequence[float]) -> None:
        for ms in times_ms:
            if time.monotonic() >= end_s:
                return
            done[who] += _asked(address, f"{path}?ms={ms:.3f}")

    sizes = draw.lognormal(np.log(MEAN_MS) - sigma**2 / 2, sigma, (len(done), 10_000))
    threads = [threading.Thread(target=ask, args=(who, list(sizes[who]))) for who in range(len(done))]
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.monotonic() - began_s)


def measured(name: str, path: str, stage: float, seconds: float, most: float, highest: float) -> dict[str, object]:
    """One run: its row.

    Args:
        stage: load as a multiple of `highest`.
        most: its capacity, requests a second.
        highest: that of the best.
    """
    with served(CONTENDERS[name]) as address:
        stream = Stream(
            name=path.strip("/"), address=address, arrivals=Poisson(stage * highest), path=path, work=Work(MEAN_MS, CV)
        )
        plan = Plan(seed=f"overload-{stage}", seconds=seconds + _WARM_S, streams=(stream,))
        found = generate(plan).samples
    found = found.chosen(found.scheduled_ns >= _WARM_S * 1e9)
    in_time = (found.status == 200) & (found.latency_ms() <= DEADLINE_MS)
    answered = found.answered()
    goodput = float(in_time.sum()) / seconds
    return {
        "contender": name, "endpoint": path.strip("/"), "stage": f"{stage:g}",
        "offered_per_s": len(found) / seconds, "capacity_per_s": most,
        "done_per_s": float((found.status == 200).sum()) / seconds,
        "within_deadline_frac": float(in_time.mean()) if len(found) else 0.0,
        "goodput_of_capacity_frac": goodput / min(most, len(found) / seconds),
        "refused_frac": float((found.status == 503).mean()) if len(found) else 0.0,
        "p50_ms": float(np.quantile(answered, 0.5)) if len(answered) else None,
        "p99_ms": float(np.quantile(answered, 0.99)) if len(answered) else None,
        "deadline_answers": int((found.status == 504).sum()), "samples": len(found),
        "errors": int((~np.isin(found.status, (200, 503, 504))).sum()),
    }  # fmt: skip


def _line(row: Mapping[str, object]) -> str:
    p50, p99 = row["p50_ms"], row["p99_ms"]
    times = f"p50 {p50:7.1f} p99 {p99:7.1f} ms" if p50 is not None else "nothing answered"
    return (
        f"{row['contender']:<17}{row['stage']:>4} x {row['capacity_per_s']:6.1f}/s: in time "
        f"{row['goodput_of_capacity_frac']:.3f} of that, refused {row['refused_frac']:.3f}, {times}, "
        f"504 {row['deadline_answers']}, errors {row['errors']}"
    )


def main(argv: Sequence[str]) -> int:
    """Measure, and print lines or JSON; 1 when greenlane misses the target."""
    parser = argparse.ArgumentParser(prog="python -m bench.overload", description=__doc__)
    parser.add_argument("--work", choices=("sleeping", "computing"), default="sleeping")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--contenders", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    path, most = f"/{given.work}", {}
    for name in given.contenders:
        with served(CONTENDERS[name]) as address:
            most[name] = capacity_per_s(address, path, max(3.0, given.seconds / 4))
    rows = []
    for turn, stage in enumerate(STAGES):
        first = turn % len(given.contenders)
        for name in given.contenders[first:] + given.contenders[:first]:
            rows.append(measured(name, path, stage, given.seconds, most[name], max(most.values())))
            if not given.json:
                print(_line(rows[-1]), flush=True)
    if given.json:
        environment = about(["greenlane", "gunicorn", "gevent", "uvicorn"])
        print(json.dumps({"schema": "greenlane.bench-overload/1", "environment": environment, "rows": rows}))
    ours = [row["goodput_of_capacity_frac"] for row in rows if str(row["contender"]).startswith("greenlane")]
    return int(any(isinstance(share, float) and share < TARGET_FRAC for share in ours))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
