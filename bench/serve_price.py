"""What `greenlane serve` costs a request: hello-world through it beside stock servers without a front.

    python -m bench.serve_price [--kind wsgi|asgi|both] [--rounds N] [--seconds S] [--contenders NAME ...] [--json]

Question: how many hello-worlds a second does `serve` give against one stock gthread worker (uvicorn for ASGI) without a
front, what do front and worker pay a request, and how long is the tail at the same rate? Asked for: with one worker
whose front has CPU of its own, gthread's rate and 0.95 of uvicorn's; uvicorn's without a front; a front of 25 us; and
no worse tail, since nothing waits behind a busy thread.

All contenders serve at once, idle in turns; in each round each gets the same load, in an order that turns round from
one round to the next. Two cores bear all, and generator and front compete with the worker for them. So three things
are reported, and none is left out:

- `own`: the process that runs Python has the first core to itself, alike for all; the front has to share the second
  one with the generator, the tree and everything else. What a machine gives that has CPU to spare for the front.
- `one`: everything of a contender on the first core, the generator on the second: a front is paid in full.
- CPU a request of front and worker, by their own clocks, which no pinning changes; 1 / CPU is what a core can bear.
  "By CPU" compares that of the busiest of our processes with that of the stock one: the share of its rate on a machine
  with a core for each process. On two cores front and generator share one, which may be the first to be full.

With two workers the second one is on the second core.

Rates are those of a closed loop (h2load, kept connections, enough that the server always has work). Times are those
of an open loop at one rate for all, 0.7 of what the slowest bears: Poisson arrivals, from the scheduled send.
What it does not show: a network; applications that do something, against which all of this is small.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from greenlane_tools.lab import processes
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.load.closed import closed_loop
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson, Stream

Kind = Literal["wsgi", "asgi"]
Place = Literal["own", "one"]

#: Of the stock server's requests a second.
TARGET_FRAC: Final[Mapping[str, float]] = {"serve-wsgi-1w": 1.0, "serve-asgi-1w": 0.95}
FRONT_US: Final = 25.0
#: Of the stock worker: enough for requests that wait; more only fight for the GIL.
THREADS: Final = 4
_CONNECTIONS: Final = 32
# Until what is set live has settled.
_WARM_S: Final = 8.0
_START_S: Final = 30.0
# The common rate of the open loop, of what the slowest bears in the closed one.
_OPEN_OF_LEAST: Final = 0.7
_MAIN: Final = "import sys; from greenlane.cli.main import main; sys.exit(main())"
_GTHREAD: Final = (
    "-m", "gunicorn", "-k", "gthread", "--workers", "1", "--threads", str(THREADS), "--log-level", "warning",
    "--no-control-socket", "--bind", "{address}", "hello:app",
)  # fmt: skip
_UVICORN: Final = (
    "-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning", "--no-access-log", "hello:app"
)  # fmt: skip
_GRANIAN: Final = (
    "-m", "granian", "--interface", "asgi", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning",
    "hello:app",
)  # fmt: skip
_SERVE: Final = ("-c", _MAIN, "serve", "hello:app", "--kind", "{kind}", "--bind", "{address}")

_APPLICATION: Final[Mapping[Kind, str]] = {
    "wsgi": """
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "6")])
    return [b"hello\\n"]
""",
    "asgi": """
START = {"type": "http.response.start", "status": 200,
         "headers": [(b"content-type", b"text/plain"), (b"content-length", b"6")]}
BODY = {"type": "http.response.body", "body": b"hello\\n"}
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send(START)
        await send(BODY)
    elif scope["type"] == "lifespan":
        while (event := await receive())["type"] != "lifespan.shutdown":
            await send({"type": event["type"] + ".complete"})
        await send({"type": "lifespan.shutdown.complete"})
""",
}


@dataclass(frozen=True)
class Contender:
    """One way to serve hello-world."""

    name: str
    kind: Kind
    command: tuple[str, ...]
    settings: str = ""


CONTENDERS: Final = tuple(
    one
    for kind, stock, command in (("wsgi", "gthread", _GTHREAD), ("asgi", "uvicorn", _UVICORN))
    for one in (
        Contender(stock, kind, command),  # type: ignore[arg-type]
        Contender(f"serve-{kind}-1w", kind, _SERVE, "workers = 1\n"),  # type: ignore[arg-type]
        Contender(f"serve-{kind}-1w-fixed", kind, _SERVE, "workers = 1\nat_once = 8\n"),  # type: ignore[arg-type]
        Contender(f"serve-{kind}-2w", kind, _SERVE, "workers = 2\n"),  # type: ignore[arg-type]
    )
) + (Contender("granian", "asgi", _GRANIAN),)


class Serving:
    """A contender that runs."""

    def __init__(self, contender: Contender, folder: Path, child: processes.Child, address: str) -> None:
        self.contender = contender
        self.folder = folder
        self.child = child
        self.address = address
        pids = child.pids()
        self.front = [pid for pid in pids if "haproxy" in _command(pid)]
        if self.front:
            self.workers = [pid for pid in pids if "greenlane_serve.worker" in _command(pid)]
            self.tree = [pid for pid in pids if pid not in (*self.front, *self.workers)]
        else:
            self.workers, self.tree = pids, []

    def pin(self, place: Place) -> None:
        """Give it its cores; see the module."""
        first, second = cores()
        for number, pid in enumerate(self.workers):
            one = first if place == "one" or not self.front or number % 2 == 0 else second
            _pin(pid, one)
        for pid in (*self.front, *self.tree):
            _pin(pid, first if place == "one" else second)

    def spent_ns(self) -> tuple[int, int, int]:
        """CPU so far: front, workers, tree."""
        return processes.cpu_ns(self.front), processes.cpu_ns(self.workers), processes.cpu_ns(self.tree)


@dataclass(frozen=True)
class Row:
    """One contender in one place, over all rounds."""

    contender: str
    # "own" or "one"; see the module.
    stage: str
    # Closed loop, median of the rounds; against the stock one of the same round, with its least and most.
    done_per_s: float
    of_stock_frac: float
    of_stock_low_frac: float
    of_stock_high_frac: float
    # Closed loop, median of the rounds: CPU a request of the stock one over that of the busiest of our processes.
    of_stock_by_cpu_frac: float
    # Open loop, all rounds together.
    offered_per_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    samples: int
    # CPU a request, of the front, of the workers, of the tree; open loop, then closed loop. Means: what measures now
    # and then must not fall out of a median.
    front_us: float
    worker_us: float
    tree_us: float
    front_busy_us: float
    worker_busy_us: float
    errors: int


@dataclass(frozen=True)
class Turn:
    """One load of one contender."""

    done_per_s: float
    us: tuple[float, float, float]
    latency_ms: np.ndarray
    errors: int


def cores() -> tuple[int, int]:
    """The first and the second of the machine's; the same one twice if there is only one."""
    known = sorted(os.sched_getaffinity(1 if os.geteuid() == 0 else 0))
    return known[0], known[min(1, len(known) - 1)]


@contextlib.contextmanager
def started(contender: Contender) -> Iterator[Serving]:
    """The contender, once it answers."""
    with tempfile.TemporaryDirectory(prefix="greenlane-") as name:
        folder = Path(name)
        (folder / "hello.py").write_text(_APPLICATION[contender.kind])
        (folder / "greenlane.toml").write_text(contender.settings)
        port = processes.free_port()
        address = f"127.0.0.1:{port}"
        words = [part.format(address=address, port=port, kind=contender.kind) for part in contender.command]
        with open(folder / "log", "wb") as log:
            child = processes.Child([sys.executable, *words], os.environ, log, folder)
        try:
            _await(address, child, folder / "log")
            yield Serving(contender, folder, child, address)
        finally:
            child.end()


def closed(serving: Serving, seconds: float) -> Turn:
    """As many requests as it bears."""
    before = serving.spent_ns()
    samples = closed_loop("hello", serving.address, connections=_CONNECTIONS, seconds=seconds)
    took_s = float(samples.done_ns.max() - samples.scheduled_ns.min()) / 1e9
    well = int((samples.status == 200).sum())
    return Turn(well / took_s, _per_request(before, serving.spent_ns(), len(samples)), np.empty(0), len(samples) - well)


def opened(serving: Serving, per_s: float, seconds: float, seed: str) -> Turn:
    """The same rate for all, whatever it bears."""
    stream = Stream("hello", serving.address, Poisson(per_s), connections="keep-alive", most_connections=256)
    before = serving.spent_ns()
    samples = generate(Plan(seed, seconds, (stream,))).samples
    us = _per_request(before, serving.spent_ns(), len(samples))
    well = samples.status == 200
    return Turn(per_s, us, samples.latency_ms(), int((~well).sum()))


def measured(some: Sequence[Contender], place: Place, rounds: int, seconds: float) -> list[Row]:
    """The rows of contenders of one kind; the first one is the stock one."""
    with contextlib.ExitStack() as stack:
        serving = [stack.enter_context(started(one)) for one in some]
        stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores()[1]})
        for one in serving:
            one.pin(place)
            closed(one, _WARM_S if one.front else 1.0)
            one.pin(place)
        found = {one.contender.name: [] for one in serving}  # type: dict[str, list[Turn]]
        for one, _ in _turns(serving, rounds):
            found[one.contender.name].append(closed(one, seconds))
        per_s = _OPEN_OF_LEAST * min(statistics.median(turn.done_per_s for turn in turns) for turns in found.values())
        timed = {one.contender.name: [] for one in serving}  # type: dict[str, list[Turn]]
        for one, number in _turns(serving, rounds):
            timed[one.contender.name].append(opened(one, per_s, seconds, f"serve-price-{number}"))
    stock = found[some[0].name]
    return [_row(one.name, place, found[one.name], stock, timed[one.name]) for one in some]


def _turns(serving: Sequence[Serving], rounds: int) -> Iterator[tuple[Serving, int]]:
    """Each once a round, in an order that turns."""
    for number in range(rounds):
        first = number % len(serving)
        turn = [*serving[first:], *serving[:first]]
        yield from ((one, number) for one in (turn if number % 2 == 0 else reversed(turn)))


def _row(name: str, place: Place, busy: Sequence[Turn], stock: Sequence[Turn], timed: Sequence[Turn]) -> Row:
    shares = [ours.done_per_s / theirs.done_per_s for ours, theirs in zip(busy, stock, strict=True)]
    by_cpu = [theirs.us[1] / max(ours.us[:2]) for ours, theirs in zip(busy, stock, strict=True)]
    latency_ms = np.concatenate([turn.latency_ms for turn in timed])
    p50, p99, p999 = (float(one) for one in np.quantile(latency_ms, [0.5, 0.99, 0.999]))
    front, worker, tree = (statistics.mean(turn.us[which] for turn in timed) for which in range(3))
    return Row(
        contender=name, stage=place, done_per_s=statistics.median(turn.done_per_s for turn in busy),
        of_stock_frac=statistics.median(shares), of_stock_low_frac=min(shares), of_stock_high_frac=max(shares),
        of_stock_by_cpu_frac=statistics.median(by_cpu),
        offered_per_s=timed[0].done_per_s, p50_ms=p50, p99_ms=p99, p999_ms=p999, samples=len(latency_ms),
        front_us=front, worker_us=worker, tree_us=tree,
        front_busy_us=statistics.mean(turn.us[0] for turn in busy),
        worker_busy_us=statistics.mean(turn.us[1] for turn in busy),
        errors=sum(turn.errors for turn in (*busy, *timed)),
    )  # fmt: skip


def _per_request(before: Iterable[int], after: Iterable[int], requests: int) -> tuple[float, float, float]:
    front, worker, tree = ((now - then) / 1e3 / max(1, requests) for then, now in zip(before, after, strict=True))
    return front, worker, tree


def _await(address: str, child: processes.Child, log: Path) -> None:
    end_s = time.monotonic() + _START_S
    while time.monotonic() < end_s and child.running():
        done = subprocess.run(["curl", "-sf", "-m", "5", f"http://{address}/"], capture_output=True, check=False)
        if done.stdout == b"hello\n":
            return
        time.sleep(0.05)
    raise SystemExit(f"a server does not answer at {address}; it said:\n{log.read_text()[-2000:]}")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _pin(pid: int, core: int) -> None:
    """All threads that it has; what they start follows them."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread), {core})


def _line(row: Row) -> str:
    return (
        f"{row.contender:<20}{row.stage:<4}{row.done_per_s:>7.0f}/s  {row.of_stock_frac:5.2f} of stock "
        f"({row.of_stock_low_frac:.2f}-{row.of_stock_high_frac:.2f}; "
        f"by CPU {row.of_stock_by_cpu_frac:.2f})  CPU busy: front {row.front_busy_us:5.1f} "
        f"worker {row.worker_busy_us:5.1f} us | at {row.offered_per_s:.0f}/s: front {row.front_us:5.1f} "
        f"worker {row.worker_us:5.1f} tree {row.tree_us:4.1f} us  p50 {row.p50_ms:.2f} p99 {row.p99_ms:.2f} "
        f"p99.9 {row.p999_ms:.2f} ms  errors {row.errors}"
    )


def verdicts(rows: Sequence[Row]) -> list[tuple[str, bool]]:
    """What is asked for, in words, and whether it holds."""
    found = []
    for place, (name, target) in itertools.product(("own", "one"), TARGET_FRAC.items()):
        known = {row.contender: row for row in rows if row.stage == place}
        stock, ours = known.get("gthread" if "wsgi" in name else "uvicorn"), known.get(name)
        if stock is None or ours is None:
            continue
        said = f"{name}, {place}:"
        share = f"{said} {ours.of_stock_frac:.2f} of {stock.contender}'s requests a second"
        share += f", by CPU {ours.of_stock_by_cpu_frac:.2f}"
        tail = f"{said} p99.9 {ours.p999_ms:.2f} ms beside {stock.p999_ms:.2f}"
        found += [(f"{share}, >= {target}", ours.of_stock_frac >= target),
                  (tail, ours.p999_ms <= stock.p999_ms)]  # fmt: skip
        if front_us := max(ours.front_us, ours.front_busy_us):
            found.append((f"{said} front {front_us:.1f} us a request, <= {FRONT_US:.0f}", front_us <= FRONT_US))
    return found


def main(argv: Sequence[str]) -> int:
    """Measure, and print lines or JSON; 1 when a target is missed where the front has CPU of its own."""
    parser = argparse.ArgumentParser(prog="python -m bench.serve_price", description=__doc__)
    parser.add_argument("--kind", choices=("wsgi", "asgi", "both"), default="both")
    parser.add_argument("--place", choices=("own", "one", "both"), default="both")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load: two for a contender and round")
    parser.add_argument("--contenders", nargs="+", choices=[one.name for one in CONTENDERS])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    rows: list[Row] = []
    kinds: tuple[Kind, ...] = ("wsgi", "asgi") if given.kind == "both" else (given.kind,)
    places: tuple[Place, ...] = ("own", "one") if given.place == "both" else (given.place,)
    for kind, place in itertools.product(kinds, places):
        some = [one for one in CONTENDERS if one.kind == kind and one.name in (given.contenders or [one.name])]
        if not some:
            continue
        rows += measured(some, place, given.rounds, given.seconds)
        if not given.json:
            print(*map(_line, rows[-len(some) :]), sep="\n", flush=True)
    if given.json:
        environment = about(["greenlane", "gunicorn", "uvicorn", "httptools", "uvloop"])
        print(json.dumps({"schema": "greenlane.bench-serve-price/1", "environment": environment,
                          "rows": [asdict(row) for row in rows]}))  # fmt: skip
    else:
        print(*(f"{'holds ' if well else 'MISSED'} {claim}" for claim, well in verdicts(rows)), sep="\n")
    return int(any(not well for claim, well in verdicts(rows) if ", own:" in claim))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
