"""Tuning the regions: one region's load straight at pricingservice, under one server after the other.

    python -m offers.mix --region hills --contenders gevent,greenlane --seconds 30

Riders' bikes and scooters are asked for as offerservice does, without it. One row for each contender and repetition on
stdout, talk on stderr. Contenders of one repetition get the same requests at the same instants.

Exit code 1: a server did not come up, or requests failed; 2: usage, or a wrong table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from greenlane.errors import GreenlaneError, SettingsError
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.load.generate import Generated, generate
from greenlane_tools.lab.processes import StartFailed, core_wait_ns, cpu_ns, machine_busy_ns
from greenlane_tools.lab.run.rows import rotate
from offers import load, table
from offers.contenders import CONTENDERS
from offers.demo.warm import FROM_S, asked_before
from offers.site import Pricing, Site

__all__ = ["Row", "main"]

DEADLINE_MS: Final = 500.0
# Not measured: connections.
_WARM_S: Final = 3.0
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
    #: Of one core, used by the server's processes.
    cpu_utilisation_frac: float
    #: Of all cores together; above about 0.9 the machine itself makes requests wait.
    machine_busy_frac: float
    #: Share of the run that the server's threads waited for a core; above about 0.05 the machine is too busy.
    core_wait_frac: float
    #: Of all requests, those not answered 200.
    errors: int
    #: What the generator was late by, 99 of 100.
    lag_p99_ms: float


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what is asked for; gives the exit code."""
    rows: list[Row] = []
    try:
        known = table.read()
        for one in _runs(_parser(known).parse_args(argv)):
            rows.append(one)
            _say(" ".join(f"{name}={value}" for name, value in asdict(one).items() if value is not None))
    except (GreenlaneError, StartFailed, table.TableError) as error:
        _say(str(error))
        return error.exit_code
    document = {"schema": "offers.mix/1", "environment": about(["gunicorn", "gevent", "flask", "urllib3"])}
    sys.stdout.write(json.dumps({**document, "rows": [asdict(one) for one in rows]}) + "\n")
    return 1 if any(one.errors for one in rows) else 0


def _parser(known: table.Table) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m offers.mix", description="a region's load straight at pricing")
    parser.add_argument("--region", choices=sorted(known.regions), default="hills")
    parser.add_argument("--contenders", default="gevent,greenlane", help=f"some of {','.join(CONTENDERS)}")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each run; 30")
    parser.add_argument("--repetitions", type=int, default=1, help="each with a seed of its own; 1")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on all rates; 1")
    parser.add_argument("--seed", default="mix")
    return parser


def _runs(given: argparse.Namespace) -> Iterator[Row]:
    names = given.contenders.split(",")
    for name in names:
        if name not in CONTENDERS:
            rule = f"some of {', '.join(CONTENDERS)}"
            raise SettingsError("contender", name, rule, "correct --contenders", attempted="measure the mix")
    with Site(say=_say) as site:
        for repetition in range(given.repetitions):
            for name in rotate(names, repetition):
                pricing = site.pricing(name)
                yield _measured(site, pricing, repetition, given)
                site.stop(pricing)


def _measured(site: Site, pricing: Pricing, repetition: int, given: argparse.Namespace) -> Row:
    region = site.table.regions[given.region]

    def asked(part: str, seconds: float) -> load.Load:
        seed = f"{given.seed}/{part}"
        return load.with_riders(site.table, region, pricing.address, seconds, seed, scale=given.scale)

    if given.seconds >= FROM_S:
        asked_before(site.table, region, pricing)
    warm, whole = asked("warm", min(_WARM_S, given.seconds)), asked(f"{repetition}", given.seconds)
    generate(warm.plan, arrivals=warm.schedule)
    pids = pricing.pids()
    before = _used_ns(pids)
    found = generate(whole.plan, arrivals=whole.schedule)
    used = [now - then for now, then in zip(_used_ns(pids), before, strict=True)]
    return _row(pricing.contender.name, region.name, repetition, whole, found, used)


def _used_ns(pids: Sequence[int]) -> tuple[int, int, int]:
    """CPU of these processes and of the machine so far, and what their threads waited for a core."""
    return cpu_ns(pids), machine_busy_ns(), core_wait_ns(pids)


def _row(
    contender: str, region: str, repetition: int, asked: load.Load, found: Generated, used: Sequence[int]
) -> Row:  # fmt: skip
    samples, whole_ns = found.samples, found.took_s * 1e9
    offers = samples.chosen(load.offers_of(asked))
    well = int(((offers.status == 200) & (offers.latency_ms() <= DEADLINE_MS)).sum())
    shares = [0.5, 0.95, 0.99, 0.999, 1.0]
    p50, p95, p99, p999, most = (
        round(float(one), 1) for one in np.quantile(offers.answered(), shares, method="inverted_cdf")
    )
    cpu, machine, waited = (one / whole_ns for one in used)
    return Row(
        contender, region, repetition, len(offers), len(offers) - well, round(well / len(offers), 6), p50, p95, p99,
        p999 if len(offers) >= _SAMPLES_OF_P999 else None, most, round(cpu, 3),
        round(machine / (os.cpu_count() or 1), 3), round(waited, 3),
        int((samples.status != 200).sum()), round(found.lag_p99_ms, 1),
    )  # fmt: skip


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
