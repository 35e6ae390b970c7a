"""What is claimed of offers: `greenlane demo offers` in the bad region, offers' added wait against the twin in Go, and
that it is one (`python -m offers.twin`).

Questions: does one change of pricingservice keep the offers that the stock server misses; do I/O endpoints wait less
than in a Go program with the same work on one core, and is it the same work?
Expected: the stock server (gevent) makes 99.5 % of bike and scooter offers within 500 ms or fewer, with p99 twice and
p99.9 three times the p95; permits (also on one core, beside gthread there), and a lane, miss at most 3 of 60,000, with
p99.9 within 1.3 times p95; offers' added wait at p99 is at most a fifth of the twin's, which answers and calls the same
and takes CPU within 5 %.

Short by default: a claim about 60,000 offers takes 21 minutes a contender (`OFFERS_PROVE=long make prove ARGS="--only
offers"`); fewer are held to the same share. It wants Go and HAProxy, and runs the checkout's systems/offers (README.md
there).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.claims import Claim, of_verdicts
from bench.claims import raw as raw_of
from greenlane.errors import PlatformError, SettingsError
from greenlane_tools.lab.environment import front
from greenlane_tools.lab.run.store import digest
from greenlane_tools.lab.run.talk import Talk

REPETITIONS = 3
_FIXES = ("gevent", "gthread-64-one-core", "greenlane", "greenlane-one-core", "greenlane-soft")
_TWIN = ("greenlane", "go")
_UTILISATIONS = (0.7, 0.8, 0.9)
#: Seconds of a run of each fix: its repetitions have 10,000 offers if it is short, a p99.9; if it is long 60,000.
_SHORT_S, _LONG_S, _QUICK_S = 70.0, 405.0, 3.0
_ADDED_S = 30.0
#: Of each contender's run beside the twin: start, endpoints asked before, offers alone, what the mix costs.
_AROUND_ADDED_S = 36.0
#: Of the comparison with it: three rounds of 15 s.
_TWIN_ROUNDS, _TWIN_ROUND_S, _TWIN_START_S = 3, 15.0, 10.0
_LENGTHS = ("short", "long")
#: Parts of the system that nothing here runs, or that say the result.
_APART = ("demo/live/",)
_SYSTEM = Path(__file__).resolve().parents[1] / "systems" / "offers"


def expected_s(quick: bool) -> float:
    """How long the runs take on an idle machine."""
    run = _ready()
    with_twin_s = (_QUICK_S if quick else _ADDED_S) * len(_UTILISATIONS) + _AROUND_ADDED_S
    with_twin_s *= len(_TWIN) * (1 if quick else REPETITIONS)
    twin_s = _TWIN_START_S + _rounds(quick) * _TWIN_ROUND_S
    return run.minutes(_options(quick, Path())) * 60 + with_twin_s + twin_s


def installed() -> None:
    """Raises PlatformError without Go, FrontError without HAProxy, SettingsError when OFFERS_PROVE is no length."""
    if _length() not in _LENGTHS:
        raise SettingsError("OFFERS_PROVE", _length(), f"one of {', '.join(_LENGTHS)}", attempted="prove offers")
    if shutil.which("go") is None:
        raise PlatformError("prove offers", name="go", value="", rule="on PATH", hint="scripts/toolchain go")
    front()


def sources() -> str:
    """Of all that its result depends on, sixteen digits."""
    parts = ("offers/**/*.py", "go/**/*.go", "go/go.*", "table/*.toml")
    paths = sorted(path for part in parts for path in _SYSTEM.glob(part))
    run = [path for path in paths if not _is_apart(path.relative_to(_SYSTEM).as_posix())]
    lengths = f"{_length()} {_SHORT_S} {_LONG_S} {_ADDED_S} {_TWIN_ROUNDS} {REPETITIONS}"
    return digest(*(path.read_bytes() for path in run), lengths.encode())


def _is_apart(name: str) -> bool:
    return name.endswith("_test.go") or name.startswith(tuple(f"offers/{part}" for part in _APART))


def measure(quick: bool, talk: Talk) -> list[dict[str, Any]]:
    """Runs everything; gives verdicts as they can be stored. Raw results in bench/results/raw/offers, by length."""
    run = _ready()
    from offers.demo import added
    from offers.demo.options import bad
    from offers.demo.results import verdicts_of
    from offers.table import read
    from offers.twin import measured as twin

    raw = raw_of(quick) / "offers" / _length()
    if raw.exists():  # of an earlier proof
        shutil.rmtree(raw)
    options, beside = _options(quick, raw / "demo"), _beside_the_twin(quick, raw / "added")
    for one in (options, beside):
        one.out.mkdir(parents=True)
    verdicts = verdicts_of(run.run(options, talk), bad(read().regions))
    verdicts += added.verdicts_of(added.run(beside, talk))
    talk.progress("the twin, compared")
    verdicts += twin(_rounds(quick), talk.progress)
    return [one.row() for one in verdicts]


def claims(verdicts: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """What is claimed of them."""
    return of_verdicts("offers", verdicts, digits=4)


def _options(quick: bool, out: Path) -> Any:
    from offers.demo.options import Options, bad
    from offers.table import read

    seconds = _QUICK_S if quick else _LONG_S if _length() == "long" else _SHORT_S
    repetitions = 1 if quick else REPETITIONS
    regions = (bad(read().regions),)
    return Options(contenders=_FIXES, regions=regions, seconds=seconds, repetitions=repetitions, out=out)


def _beside_the_twin(quick: bool, out: Path) -> Any:
    from dataclasses import replace

    from offers.demo.options import well
    from offers.table import read

    options = replace(_options(quick, out), contenders=_TWIN, regions=(well(read().regions),))
    return replace(options, seconds=_QUICK_S if quick else _ADDED_S, utilisations_frac=_UTILISATIONS)


def _rounds(quick: bool) -> int:
    return 1 if quick else _TWIN_ROUNDS


def _length() -> str:
    return os.environ.get("OFFERS_PROVE") or "short"


def _ready() -> Any:
    """The demo's run, which lies beside the package, in the checkout."""
    if str(_SYSTEM) not in sys.path:
        sys.path.insert(0, str(_SYSTEM))
    from offers.demo import command

    return command
