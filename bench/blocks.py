"""What the proof runs, in the order in which a partial run is worth most."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from greenlane.demo import arena, calibration
from greenlane.demo.comparison import Design
from greenlane.demo.contenders import CONTENDERS, Contender, Service, environment
from greenlane.demo.rates import MIXES, JobCost, rates_per_s

REPETITIONS = 5
# Bikes in a cell, all repetitions together; 2 % more are asked for, since arrivals are random. The claim that all else
# rests on has more than the others, so that the whole proof stays under an hour.
BIKES = 3_000
FEWER_BIKES = 1_200
_MORE = 1.02
# Beside the load: the generator's start and the drain of a run; servers, warm-up and calibration of a block.
_AROUND_RUN_S = 1.0
_AROUND_BLOCK_S = 25.0
_DJANGO = Path(__file__).with_name("django_site")

_ALL = ("gevent", "gthread-64", "gthread-64-0.5ms", "dedicated", "greenlane")
_ONE_PROCESS = ("gevent", "gthread-64", "gthread-64-0.5ms", "greenlane")
# Where the short interval is no rival: it is the better gthread row for bikes, which are only compared so at 0.9, and
# the worse one for quote.
_LESS_LOAD = ("gthread-64", "dedicated", "greenlane")
# The middleware on stock gthread, as the Django block serves it beside our worker.
MIDDLEWARE = replace(CONTENDERS["gthread-64"], name="greenlane-middleware", app="shop.wsgi_greenlane:application")
DJANGO_MIX = {"bikes": 0.15, "quote": 0.67, "receipt": 0.10, "report": 0.08}
# What one job is expected to cost, to pace the calibration; bikes and quote as calibrated.
_DJANGO_ALONE_MS = {"bikes": 3.0, "quote": 40.0, "receipt": 4.0, "report": 4.0}


@dataclass(frozen=True)
class Block:
    """One comparison: a mix at one utilisation."""

    name: str
    title: str
    mix: str
    utilisation_frac: float
    contenders: tuple[str, ...] = _ALL
    shares: Mapping[str, float] = field(default_factory=dict)
    django: bool = False
    bikes: int = FEWER_BIKES

    def entries(self) -> list[Contender]:
        """What is started."""
        return [MIDDLEWARE if name == MIDDLEWARE.name else CONTENDERS[name] for name in self.contenders]

    def mix_shares(self) -> Mapping[str, float]:
        """CPU share by endpoint."""
        return self.shares or MIXES[self.mix]

    def run_seconds(self, costs: Mapping[str, JobCost], quick: bool) -> float:
        """Load per run, so that `REPETITIONS` of them have the bikes that are wanted."""
        if quick:
            return 4.0
        bikes_per_s = rates_per_s(self.mix_shares(), costs, self.utilisation_frac)["bikes"]
        return math.ceil(self.bikes * _MORE / REPETITIONS / bikes_per_s)

    def design(self, costs: Mapping[str, JobCost], seed: int, quick: bool) -> Design:
        """Its runs. Requests are waited for 20 s: what is lost is then counted at that."""
        return Design(
            self.mix, self.mix_shares(), self.contenders, (self.utilisation_frac,), 1 if quick else REPETITIONS,
            self.run_seconds(costs, quick), seed, timeout_s=20.0,
        )  # fmt: skip

    def expected_s(self, costs: Mapping[str, JobCost], quick: bool) -> float:
        """How long it takes."""
        design = self.design(costs, 0, quick)
        return _AROUND_BLOCK_S + len(list(design.turns())) * (design.run_seconds + _AROUND_RUN_S)


BLOCKS: tuple[Block, ...] = (
    Block("offers-0.9", "the demo's mix at 0.9 of one worker", "light10", 0.9, bikes=BIKES),
    Block("surge", "I/O before the CPU, endpoints unchanged", "surge", 0.85, _ONE_PROCESS),
    Block("light20", "twice as much light work, at 0.9", "light20", 0.9, ("gevent", "gthread-64", "greenlane")),
    Block("django", "a Django project: ORM and templates", "django", 0.9,
          ("gevent", "gthread-64", "greenlane", MIDDLEWARE.name), DJANGO_MIX, django=True),
    Block("offers-0.8", "the demo's mix at 0.8", "light10", 0.8, _LESS_LOAD),
    Block("offers-0.6", "the demo's mix at 0.6", "light10", 0.6, _LESS_LOAD),
)  # fmt: skip


@contextlib.contextmanager
def opened(block: Block, iterations_per_ms: int) -> Iterator[arena.Arena]:
    """The block's servers, running."""
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(_django()) if block.django else None
        yield stack.enter_context(arena.opened(block.entries(), service, iterations_per_ms))


def calibrate(block: Block, running: arena.Arena, iterations_per_ms: int, seconds: float) -> dict[str, JobCost]:
    """The cost of a job of each endpoint of the block, on stock gthread."""
    alone = dict(_DJANGO_ALONE_MS) if block.django else calibration.alone(MIXES["light10"], iterations_per_ms)
    return calibration.on_gthread(running, alone, seconds)


@contextlib.contextmanager
def _django() -> Iterator[Service]:
    with tempfile.TemporaryDirectory(prefix="greenlane-django-") as folder:
        env = {"SHOP_DATABASE": str(Path(folder, "shop.sqlite3")), "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run([sys.executable, "manage.py", "fill"], cwd=_DJANGO, env={**environment(), **env}, check=True)
        yield Service("shop.wsgi:application", _DJANGO, arena.LIGHT, env)


def checkout() -> Path:
    """The folder that `python -m bench.prove` runs in."""
    return Path(os.path.dirname(__file__)).parent
