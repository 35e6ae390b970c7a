"""Records pricing under stock gunicorn with gevent, finds its slowest offer, and makes the case.

    python -m offers.slow_offer                           staged: 40 receipts while one offer waits for routing (10 s)
    python -m offers.slow_offer --region hills            the region's own load, as it comes
    python -m offers.slow_offer --page slow.html --json

What it prints is what `greenlane report` says of the recording, beside the clock of a relay between pricing and the
upstream. Exit 0: the case is made; 1: a part failed, or no offer was slow; 2: usage, or a wrong table.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.processes import StartFailed
from greenlane_tools.page.quantities import factor, milliseconds
from offers import table
from offers.load import with_riders
from offers.slow_offer.case import Case, agreement, case_of, draw, rows_of
from offers.slow_offer.service import WATCHED, Recorded
from offers.slow_offer.staged import MOST_HEAVY, Plan, staged
from offers.slow_offer.verdicts import verdicts_of

_VERSIONS: Final = ("flask", "gevent", "gunicorn", "urllib3")
#: An application's clock that reads this many times the upstream's makes a case.
_CASE: Final = 3.0


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    try:
        given = _parser().parse_args(argv)
        with tempfile.TemporaryDirectory(prefix="offers-slow-") as temporary:
            return _made(given, Path(given.keep or temporary).absolute())
    except table.TableError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except (GreenlaneError, StartFailed, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m offers.slow_offer", description=(__doc__ or "").partition("\n")[0])
    regions = list(table.read().regions)
    parser.add_argument("--region", choices=regions, help="its load, instead of the staged requests")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the region's load (60)")
    parser.add_argument(
        "--heavy-ms", type=float, default=Plan().heavy_ms, help="staged: CPU of each of 40 receipts (132)"
    )
    parser.add_argument("--seed", default="slow", help="of the region's load")
    parser.add_argument("--page", type=Path, help="where the report's page goes")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep recording and logs there")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    return parser


def _made(given: argparse.Namespace, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    sys.stderr.write("starting upstreams and pricing, recorded …\n")
    with Recorded(folder) as service:
        if given.region:
            _loaded(service, given)
        else:
            sys.stderr.write(f"{MOST_HEAVY} receipts of {given.heavy_ms:g} ms while one offer waits …\n")
            staged(service, Plan(heavy_ms=given.heavy_ms))
    rows = rows_of(service.recording)
    case = case_of(rows, service.watched.passed)
    agree, both = agreement(rows)
    verdicts = [] if given.region else verdicts_of(case)
    if given.json:
        row = {**asdict(case), "agree": agree, "calls": both}
        found = {"schema": "offers.slow-offer/1", "environment": about(_VERSIONS), "rows": [row]}
        sys.stdout.write(json.dumps({**found, "verdicts": [one.row() for one in verdicts]}) + "\n")
    else:
        judged = ["", "Must show", *(one.said() for one in verdicts)] if verdicts else []
        sys.stdout.write("\n".join([*_told(case), _agreed(agree, both), *judged]) + "\n")
    if given.page:
        draw(service.recording, case.route, given.page)
        sys.stderr.write(f'page: {given.page} ("The slowest jobs")\n')
    return 0 if case.factor >= _CASE else 1


def _loaded(service: Recorded, given: argparse.Namespace) -> None:
    known = table.read()
    load = with_riders(known, known.regions[given.region], service.address, given.seconds, given.seed)
    sys.stderr.write(f"{len(load)} requests of {given.region} in {given.seconds:g} s …\n")
    generate(load.plan, arrivals=load.schedule)


def _told(case: Case) -> list[str]:
    """The case as lines."""
    trace = f", trace {case.trace}" if case.trace else ""
    lines = [f"{case.route} took {milliseconds(case.offer_ms)}{trace}. Its call of {WATCHED}:", ""]
    clocks = [("the upstream's own clock", case.upstream_ms), ("on the wire, by the recording", case.wire_ms)]
    if case.relay_ms is not None:
        clocks.append(("on the wire, by a relay", case.relay_ms))
    for name, ms in clocks:
        aside = "" if ms == case.upstream_ms else f"{ms - case.upstream_ms:+.2f} ms"
        lines.append(f"  {name:<32}{milliseconds(ms):>10}   {aside}".rstrip())
    lines.append(f"  {'the application':<32}{milliseconds(case.application_ms):>10}   {factor(case.factor)}")
    lines += ["", "Who had the CPU while it waited:", ""]
    for row in case.culprits[:5]:
        place = f"   {row['place']}" if row["place"] else ""
        lines.append(f"  {row['culprit']:<32}{milliseconds(row['wait_ms']):>10}{place}")
    return lines


def _agreed(agree: int, both: int) -> str:
    return f"\nUpstream's clock and wire within 2 ms: {agree} of the {both} calls of the slowest requests."


if __name__ == "__main__":
    sys.exit(main())
