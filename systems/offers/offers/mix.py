"""Tuning the regions: one region's load straight at pricing, under one server after the other.

    python -m offers.mix --region hills --contenders gevent,greenlane --seconds 30

Riders' bikes and scooters are asked for as offerservice does, without it; upstreams are this package's, all in one
process. One row for each contender and repetition on stdout, talk on stderr. Contenders of one repetition get the same
requests at the same instants, with the same w and ids.

`paper-fifo` and `paper-permits` are no servers: the same requests served by on_paper.py, whatever the machine does.

Exit code 1: a server did not come up, or requests failed; 2: usage, or a wrong table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from greenlane.errors import GreenlaneError, HostError, SettingsError
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.processes import Child, core_wait_ns, cpu_ns, free_port, machine_busy_ns, wait_for_port
from offers import load, on_paper, table, work
from offers.children import ROOT, found_by

__all__ = ["CONTENDERS", "Row", "main"]

DEADLINE_MS: Final = 500.0
CONTENDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "gevent": ("--worker-class", "gevent"),
    "gthread-64": ("--worker-class", "gthread", "--threads", "64"),
    "greenlane": ("--worker-class", "greenlane.hosts.gunicorn.Worker", "--threads", "64"),
}
PAPER: Final[Mapping[str, on_paper.Rule]] = {"paper-fifo": "fifo", "paper-permits": "permits"}
_GUNICORN: Final = ("--workers", "1", "--log-level", "warning", "--no-control-socket", "--keep-alive", "75")
# Not measured, after the lesson: connections.
_WARM_S: Final = 3.0
_READY_S: Final = 30.0
_SAMPLES_OF_P999: Final = 10_000


@dataclass(frozen=True)
class Row:
    """The bike and scooter offers of one contender in one run."""

    contender: str
    region: str
    repetition: int
    samples: int
    #: Later than 500 ms, or not answered well.
    missed: int
    success_frac: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    #: None below 10,000 samples.
    p999_ms: float | None
    most_ms: float
    #: p99 and p99.9 over p95; the latter of fewer samples, too.
    p99_over_p95: float
    p999_over_p95: float
    #: Of one core, used by the worker and its arbiter.
    cpu_utilisation_frac: float
    #: Requests in progress at one time, at most; only on paper.
    most_at_once: int | None = None
    #: What follows is None on paper. Of all cores together; above about 0.9 the machine itself makes requests wait.
    machine_busy_frac: float | None = None
    #: Share of the run that threads of the worker waited for a core which others had; above about 0.05 the machine is
    #: too busy for these figures to say much.
    os_wait_frac: float | None = None
    #: Of all requests, those not answered 200.
    errors: int = 0
    #: What the generator was late by, 99 of 100.
    lag_p99_ms: float | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is asked for; gives the exit code."""
    rows: list[Row] = []
    try:
        known = table.read()
        given = _parser(known).parse_args(argv)
        with tempfile.TemporaryDirectory(prefix="offers-mix-") as place:
            for one in _runs(known, given, Path(place)):
                rows.append(one)
                _say(one)
    except (GreenlaneError, table.TableError) as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    if given.json:
        answer = {"schema": "offers.mix/1", "environment": about(["gunicorn", "gevent", "flask", "urllib3"])}
        sys.stdout.write(json.dumps({**answer, "rows": [asdict(one) for one in rows]}) + "\n")
    return 1 if any(one.errors for one in rows) else 0


def _parser(known: table.Table) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m offers.mix", description="a region's load straight at pricing")
    parser.add_argument("--region", choices=sorted(known.regions), default="hills")
    parser.add_argument("--contenders", default="gevent,greenlane", help=f"some of {','.join((*CONTENDERS, *PAPER))}")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run; 30")
    parser.add_argument("--repetitions", type=int, default=1, help="each with a seed of its own; 1")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all rates; 1")
    parser.add_argument("--warm", type=float, default=_WARM_S, help="seconds of load before each, not measured; 3")
    parser.add_argument("--lesson", type=int, default=4, help="how often each endpoint is asked for before that; 4")
    parser.add_argument("--seed", default="mix")
    parser.add_argument("--json", action="store_true", help="one object on stdout")
    return parser


def _runs(known: table.Table, given: argparse.Namespace, place: Path) -> Iterator[Row]:
    names = [name.strip() for name in given.contenders.split(",")]
    for name in names:
        if name not in CONTENDERS and name not in PAPER:
            rule, hint = f"some of {', '.join((*CONTENDERS, *PAPER))}", "correct --contenders"
            raise SettingsError("contender", name, rule, hint, attempted="measure the mix")
    region = known.regions[given.region]
    # A server's calibration is not needed on paper.
    env = {"OFFERS_ITERATIONS": json.dumps(work.iterations_per_ms())} if {*names} - {*PAPER} else {}
    for repetition in range(given.repetitions):
        for name in names:
            turn = _Turn(known, name, region, repetition, given, place)
            yield turn.on_paper(PAPER[name]) if name in PAPER else turn.at_a_server(env)


@dataclass(frozen=True)
class _Turn:
    """One contender's load in one repetition."""

    known: table.Table
    name: str
    region: table.Region
    repetition: int
    given: argparse.Namespace
    place: Path

    def at_a_server(self, env: Mapping[str, str]) -> Row:
        """It by gunicorn."""
        with _site(self.known, self.name, env, self.place) as (address, server):
            if self.given.lesson:
                lesson = load.lesson(self.known, self.region, address, times=self.given.lesson)
                generate(lesson.plan, arrivals=lesson.schedule)
            warm = self._load(address, "warm", self.given.warm)
            generate(warm.plan, arrivals=warm.schedule)
            asked = self._load(address, f"{self.repetition}", self.given.seconds)
            before = _Used.by(server)
            found = generate(asked.plan, arrivals=asked.schedule)
            used = _Used.by(server).since(before)
        samples, whole_ns = found.samples, found.took_s * 1e9
        offers = samples.chosen(load.offers_of(asked))
        well = (offers.status == 200) & (offers.latency_ms() <= DEADLINE_MS)
        return self._row(
            offers.answered(), int(well.sum()), len(offers),
            cpu_utilisation_frac=round(used.server / whole_ns, 3),
            machine_busy_frac=round(used.machine / whole_ns / (os.cpu_count() or 1), 3),
            os_wait_frac=round(used.waited / whole_ns, 3),
            errors=int((samples.status != 200).sum()), lag_p99_ms=round(found.lag_p99_ms, 1),
        )  # fmt: skip

    def on_paper(self, rule: on_paper.Rule) -> Row:
        """It by a rule."""
        asked = self._load("paper:0", f"{self.repetition}", self.given.seconds)
        served = on_paper.serve(self.known, asked, rule)
        latencies_ms = np.sort(served.latency_ms[load.offers_of(asked)])
        well = int((latencies_ms <= DEADLINE_MS).sum())
        return self._row(
            latencies_ms, well, len(latencies_ms), cpu_utilisation_frac=round(served.utilisation_frac, 3),
            most_at_once=served.most_at_once,
        )  # fmt: skip

    def _load(self, address: str, part: str, seconds: float) -> load.Load:
        seed = f"{self.given.seed}/{part}"
        return load.with_riders(self.known, self.region, address, seconds, seed, scale=self.given.scale)

    def _row(self, latencies_ms: NDArray[np.float64], well: int, size: int, **used: Any) -> Row:
        shares = [0.5, 0.95, 0.99, 0.999, 1.0]
        p50, p95, p99, p999, most = (float(one) for one in np.quantile(latencies_ms, shares, method="inverted_cdf"))
        return Row(
            contender=self.name, region=self.region.name, repetition=self.repetition,
            samples=size, missed=size - well, success_frac=round(well / size, 6),
            p50_ms=round(p50, 1), p95_ms=round(p95, 1), p99_ms=round(p99, 1),
            p999_ms=round(p999, 1) if size >= _SAMPLES_OF_P999 else None, most_ms=round(most, 1),
            p99_over_p95=round(p99 / p95, 2), p999_over_p95=round(p999 / p95, 2), **used,
        )  # fmt: skip


class _Used(NamedTuple):
    """CPU so far, ns: the server's, the machine's, and what the server's threads waited for a core."""

    server: int
    machine: int
    waited: int

    @classmethod
    def by(cls, server: Child) -> _Used:
        pids = server.pids()
        return cls(cpu_ns(pids), machine_busy_ns(), core_wait_ns(pids))

    def since(self, before: _Used) -> _Used:
        return _Used(*(now - then for now, then in zip(self, before, strict=True)))


@contextmanager
def _site(known: table.Table, contender: str, env: Mapping[str, str], place: Path) -> Iterator[tuple[str, Child]]:
    """Upstreams and one pricing server: its address and process."""
    upstreams, pricing = free_port(), free_port()
    python = [sys.executable, "-m"]
    where = {"OFFERS_UPSTREAMS": ",".join(f"{name}=127.0.0.1:{upstreams}" for name in known.upstreams)}
    env = {**found_by(ROOT), **env, **where}
    names = ",".join(known.upstreams)
    with (place / f"{contender}.log").open("w+b") as log:
        asked = Child([*python, "offers.upstreams", "--port", str(upstreams), "--names", names], env, log, place)
        address = f"127.0.0.1:{pricing}"
        arguments = [*_GUNICORN, *CONTENDERS[contender], "--bind", address, "offers.pricing.application:app"]
        server = Child([*python, "gunicorn", *arguments], env, log, place)
        try:
            for port, child in ((upstreams, asked), (pricing, server)):
                if not wait_for_port(port, child, _READY_S):
                    said = Path(log.name).read_text(errors="replace")[-2000:]
                    rule = f"a server within {_READY_S:g} s (it said: {said})"
                    raise HostError("measure the mix", name="contender", value=contender, rule=rule)
            yield address, server
        finally:
            server.end()
            asked.end()


def _say(row: Row) -> None:
    sys.stderr.write(" ".join(f"{name}={value}" for name, value in asdict(row).items() if value is not None) + "\n")


if __name__ == "__main__":
    sys.exit(main())
