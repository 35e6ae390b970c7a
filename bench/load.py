"""How much load the generator sends from one core, at what cost, and how punctually; beside vegeta where it is at hand.

    python -m bench.load [--seconds S] [--vegeta PATH] [--json]

Question: does it send 20,000 requests a second from one core? Expected: yes, at 10 to 15 us of CPU a request over kept
connections (half of it the kernel's), so at a third of the core; three to four times that over new ones.

The server is nginx with one process, which answers from memory, on a core of its own; the generator has another. What
it does not show: a network. Loopback does both sides' work on the sender's core.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from greenlane_tools.lab import processes
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson, Stream

Connections = Literal["new", "keep-alive"]
# Poisson arrivals come as fast as they like: with less room nginx would be the one to refuse.
_NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;
events {{ worker_connections 10000; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 "ok"; }} }}
}}
"""
# Of each tool: a pause of the server must not become a storm of connections, which would be what is measured then.
_MOST_CONNECTIONS = 256
_CASES: tuple[tuple[float, Connections], ...] = (
    (1_000.0, "keep-alive"),
    (20_000.0, "keep-alive"),
    (40_000.0, "keep-alive"),
    (1_000.0, "new"),
    (8_000.0, "new"),
)


@dataclass(frozen=True)
class Row:
    """One run."""

    tool: str
    connections: Connections
    asked_per_s: float
    # Answered with 200, over the time that it took.
    done_per_s: float
    # CPU of the tool a request, its start included where it is a program of its own.
    cpu_us: float
    # How late requests left; None = the tool does not say.
    lag_p50_ms: float | None
    lag_p99_ms: float | None
    p50_ms: float
    p99_ms: float
    p999_ms: float


@contextlib.contextmanager
def nginx(core: int) -> Iterator[str]:
    """The server's address."""
    program = shutil.which("nginx", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if program is None:
        raise SystemExit("missing: nginx\n  install it with: apt-get install -y nginx-light")
    port = processes.free_port()
    with tempfile.TemporaryDirectory(prefix="greenlane-") as folder:
        config = Path(folder, "nginx.conf")
        config.write_text(_NGINX.format(folder=folder, port=port))
        child = processes.Child(
            [program, "-p", folder, "-e", f"{folder}/log", "-c", str(config)],
            os.environ,
            subprocess.DEVNULL,
            config.parent,
        )
        try:
            os.sched_setaffinity(child.pids()[0], {core})
            if not processes.wait_for_port(port, child, 10.0):
                raise SystemExit("nginx does not start")
            yield f"127.0.0.1:{port}"
        finally:
            child.end()


def ours(address: str, per_s: float, connections: Connections, seconds: float) -> Row:
    """One run of the lab's generator."""
    stream = Stream("bench", address, Poisson(per_s), connections=connections, most_connections=_MOST_CONNECTIONS)
    generated = generate(Plan("bench", seconds, (stream,)))
    samples = generated.samples
    p50, p99, p999 = np.quantile(samples.latency_ms(), [0.5, 0.99, 0.999])
    done = int((samples.status == 200).sum())
    return Row("greenlane", connections, per_s, done / generated.took_s, generated.cpu_ms * 1e3 / len(samples),
               generated.lag_ms(0.5), generated.lag_p99_ms, p50, p99, p999)  # fmt: skip


def vegeta(program: str, address: str, per_s: float, connections: Connections, seconds: float) -> Row:
    """One run of vegeta, which sends evenly spaced requests and times each from when it was really sent."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    kept = "true" if connections == "keep-alive" else "false"
    command = [program, "attack", f"-rate={per_s:g}/1s", f"-duration={seconds:g}s", f"-keepalive={kept}",
               f"-max-connections={_MOST_CONNECTIONS}"]  # fmt: skip
    target = f"GET http://{address}/\n"
    attack = subprocess.run(command, input=target.encode(), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    report = json.loads(
        subprocess.run([program, "report", "-type=json"], input=attack.stdout, capture_output=True).stdout
    )
    latencies = subprocess.run([program, "encode", "-to=csv"], input=attack.stdout, capture_output=True).stdout
    ms = np.array([int(line.split(b",")[2]) for line in latencies.splitlines()]) / 1e6
    p50, p99, p999 = np.quantile(ms, [0.5, 0.99, 0.999])
    return Row("vegeta", connections, per_s, report["throughput"], cpu_s * 1e6 / report["requests"],
               None, None, p50, p99, p999)  # fmt: skip


def _line(row: Row) -> str:
    lag = "" if row.lag_p50_ms is None else f"  left late p50 {row.lag_p50_ms:.3f} p99 {row.lag_p99_ms:.3f} ms"
    return (
        f"{row.tool:<10}{row.connections:<11}{row.asked_per_s:>7.0f}/s asked {row.done_per_s:>8.0f}/s done "
        f"{row.cpu_us:>6.1f} us  p50 {row.p50_ms:.3f} p99 {row.p99_ms:.3f} p99.9 {row.p999_ms:.3f} ms{lag}"
    )


def main(argv: Sequence[str]) -> int:
    """Measure, and print lines or JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--vegeta", default=shutil.which("vegeta"), help="the program (default: on PATH)")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    cores = sorted(os.sched_getaffinity(0))
    rows = []
    with nginx(cores[0]) as address:
        os.sched_setaffinity(0, {cores[-1]})
        for per_s, connections in _CASES:
            rows.append(ours(address, per_s, connections, given.seconds))
            if given.vegeta:
                rows.append(vegeta(given.vegeta, address, per_s, connections, given.seconds))
            if not given.json:
                print(*map(_line, rows[-2 if given.vegeta else -1 :]), sep="\n", flush=True)
    if given.json:
        print(json.dumps({"schema": "greenlane.bench-load/1", "environment": about(["greenlane"]),
                          "rows": [asdict(row) for row in rows]}))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
