"""What is claimed of orders to ten merchants: `greenlane demo pos`, three interleaved runs of each contender.

Question: does one slow merchant stop the others, and what does the worker that prevents it cost? Expected: every order
of the nine others is done, at the 95th percentile within 360 ms of its publish, 300 of which are the merchant's; 16
times the orders of four stock processes; at most 10 % more CPU an order than stock Celery's gevent pool; nothing lost.

It wants RabbitMQ, and runs the checkout's systems/pos (README.md there).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.claims import Claim, of_verdicts
from greenlane_tools.lab.run.store import digest
from greenlane_tools.lab.run.talk import Talk

REPETITIONS = 3
_CONTENDERS = ("prefork-4", "gevent-200", "greenlane", "greenlane-green")
_QUICK_S = 3.0
_CHECKOUT = Path(__file__).resolve().parents[1]
_SYSTEM = _CHECKOUT / "systems" / "pos"
_WORKER = _CHECKOUT / "packages" / "greenlane-work" / "src"


def expected_s(quick: bool) -> float:
    """How long the runs take on an idle machine."""
    return _ready().minutes(_options(quick, Path())) * 60


def installed() -> None:
    """Raises PlatformError when the machine has no RabbitMQ."""
    _ready()
    from pos.broker import installed

    installed()


def sources() -> str:
    """Of all that its result depends on, sixteen digits."""
    run = [*_SYSTEM.glob("pos/**/*.py"), *_WORKER.glob("greenlane_work/[!c]*/**/*.py")]
    return digest(*(path.read_bytes() for path in sorted(run)))


def measure(quick: bool, talk: Talk) -> list[dict[str, Any]]:
    """Runs everything; gives verdicts as they can be stored."""
    run = _ready()
    from pos.demo.results import verdicts_of

    with tempfile.TemporaryDirectory(prefix="gl-prove-") as folder:
        return [one.row() for one in verdicts_of(run.run(_options(quick, Path(folder)), talk))]


def claims(verdicts: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """What is claimed of them; what never came is later than anything."""
    return of_verdicts("pos", verdicts, digits=2)


def _options(quick: bool, out: Path) -> Any:
    from pos.demo.options import Options

    return Options(
        contenders=_CONTENDERS, repetitions=1 if quick else REPETITIONS, seconds=_QUICK_S if quick else None, out=out
    )


def _ready() -> Any:
    """The demo's run, which lies beside the package, in the checkout."""
    if str(_SYSTEM) not in sys.path:
        sys.path.insert(0, str(_SYSTEM))
    from pos.demo import run

    return run
