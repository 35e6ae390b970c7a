"""The plan's predictions beside what is measured: pricing, part 3 and pos, each at three loads, three contenders.

    python -m bench.predictions [--system pricing,part3,pos] [--loads 0.5,0.7,0.85] [--seconds 40] [--repetitions 2]
                                [--contenders gevent,gthread-64,greenlane] [--record-at 0.85] [--out FOLDER] [--json]

Question: from one recording of the stock gevent contender, at one load, how well does the simulator predict each
contender at each load? Expected: p50 within 7 %, p99 within 20 %; every miss is listed with its reason.

Of each system the gevent contender is recorded once, by `greenlane record`, and made a profile. The other contenders,
and other loads, are predicted from it, with production's own rules, and then run in turns: contenders change fastest.
Predicted are the latencies of the very requests that were sent (when, and how much work they asked for), since those of
half a minute near the limit stray far from the long run's. The interval of a prediction is over what nobody knows of
them; that of a measurement goes from the lowest repetition to the highest.

The cores of a shared machine change their speed: pricing notes it by its own counted work, and is predicted at the
speed that each request had (bench/predicted/speed.py; what the recording alone says stands beside it); part 3 and pos
compute by the CPU clock.

A reason is only given where it was found: with the CPU that was measured the prediction agrees (`cpu`); the requests
are so few that the percentile could be what was predicted (`few`); else the miss is not explained, whatever else is
true of the run. p99 is shown from 200 requests, though 1,000 carry it: `carried` tells.

What it does not show: services whose requests wait for locks or pools, machines with neighbours, other days' bursts.
Two cores: a contender has one, load and upstreams the other. Some 20 minutes; `--seconds 6` tries it in 6.
Exit codes: 0 every miss is explained, 1 one is not, 2 options, 130 Ctrl-C; every process has then ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn

from bench.predicted import part3, pos, pricing
from bench.predicted.rows import FIGURES, Asked, Row, judged
from greenlane.cli.output import Output, environment
from greenlane.errors import GreenlaneError
from greenlane_tools.lab.arguments import Values
from greenlane_tools.lab.interruption import ended_by_signals
from greenlane_tools.lab.processes import StartFailed
from greenlane_tools.lab.run.talk import LiveTalk

SCHEMA: Final = "greenlane.bench.predictions/1"
#: By name: how long it takes, and what it measures.
SYSTEMS: Final[Mapping[str, tuple[Callable[[Asked], float], Callable[[Asked], list[Row]]]]] = {
    "pricing": (pricing.expected_s, pricing.measured),
    "part3": (part3.expected_s, part3.measured),
    "pos": (pos.expected_s, pos.measured),
}
_VALUES: Final = Values("hold predictions against measurements", "python -m bench.predictions --help")
_USUAL: Final = ("gevent", "gthread-64", "greenlane")
_COLUMNS: Final = (
    *("system", "contender", "load", "route", "samples", "p50: predicted", "measured", "off", "p99: predicted"),
    *("measured p99", "off by", "verdict"),
)


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    try:
        given = _arguments(argv)
        asked = _asked(given)
        with ended_by_signals():
            rows = run(asked, given.systems)
    except (GreenlaneError, StartFailed) as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nstopped; every process was ended", file=sys.stderr)
        return 130
    document = {"schema": SCHEMA, "environment": environment(), "rows": rows}
    (asked.folder / "rows.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if given.json:
        print(json.dumps(document, indent=1))
    else:
        show(rows, Output.standard())
    return 1 if any(judged(rows, name)[2] for name, *_ in FIGURES) else 0


def run(asked: Asked, systems: Sequence[str]) -> list[Row]:
    """Everything, one system after the other. Blocks; no process is left.

    Raises: GreenlaneError, KeyboardInterrupt.
    """
    if "pos" in systems:
        pos.installed()
    minutes = sum(SYSTEMS[name][0](asked) for name in systems) / 60
    asked.talk.say(f"{', '.join(systems)}: about {max(1, round(minutes))} min; all of it stays in {asked.folder}")
    rows: list[Row] = []
    for name in systems:
        began_s = time.monotonic()
        rows += SYSTEMS[name][1](asked)
        asked.talk.say(f"{name}: {(time.monotonic() - began_s) / 60:.1f} min")
    return rows


def show(rows: Sequence[Row], output: Output) -> None:
    """The table, then each miss with its reasons, then the count."""
    output.table([_cells(row) for row in rows if any(f"{name}_ms" in row for name, *_ in FIGURES)], _COLUMNS)
    missed = [(row, miss) for row in rows for miss in row["misses"]]
    if missed:
        output.line("\nmisses")
    for row, miss in missed:
        where = f"{row['system']}, {row['contender']} at {_load(row)}, {row['endpoint']}, {miss['figure']}"
        output.line(f"  {where}: {'; '.join(miss['reasons'])}")
    output.line()
    for name, _, most, _ in FIGURES:
        shown, well, unexplained = judged(rows, name)
        output.line(f"{name} within {most:.0%}: {well} of {shown}; misses that nothing explains: {unexplained}")
        plain = [row[f"plain_{name}_within"] for row in rows if f"plain_{name}_within" in row]
        if plain:
            output.line(f"  pricing, if nobody knew the cores' speed: {sum(plain)} of {len(plain)}")


def _cells(row: Row) -> dict[str, object]:
    wrong = [miss["figure"] for miss in row["misses"]]
    cells: dict[str, object] = {
        "system": row["system"], "contender": row["contender"], "load": _load(row), "route": row["endpoint"],
        "samples": row["samples"], "verdict": "within" if not wrong else f"misses {', '.join(wrong)}",
    }  # fmt: skip
    for (name, *_), columns in zip(FIGURES, (_COLUMNS[5:8], _COLUMNS[8:11]), strict=True):
        if f"{name}_ms" not in row:
            continue
        at = (_between(row, f"predicted_{name}"), _between(row, name), f"{row[f'{name}_error_frac']:+.1%}")
        cells |= dict(zip(columns, at, strict=True))
    return cells


def _between(row: Row, name: str) -> str:
    at, low, high = (row[f"{name}{end}_ms"] for end in ("", "_low", "_high"))
    return f"{at:.1f} [{low:.1f}, {high:.1f}]"


def _load(row: Row) -> str:
    return f"{row['green_threads']} places" if "green_threads" in row else f"{row['utilisation_frac']:g}"


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(prog="python -m bench.predictions", description=__doc__, allow_abbrev=False,
                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("--system", default=",".join(SYSTEMS), help=f"some of {', '.join(SYSTEMS)} (all)")
    add("--loads", default="0.5,0.7,0.85", help="shares of what a process can do (0.5,0.7,0.85)")
    add("--contenders", default=",".join(_USUAL), help=f"some of {', '.join(pricing.CONTENDERS)}")
    add("--seconds", default="40", help="load of a contender at a load, over all repetitions (40)")
    add("--repetitions", default="2", help="interleaved runs that make up a cell (2)")
    add("--record-at", default="0.85", help="load of the recording (0.85)")
    add("--out", type=Path, default=Path("out/predictions"), help="recordings, profiles, samples (out/predictions)")
    add("--json", action="store_true", help="one JSON object on stdout in place of the table")
    given = parser.parse_args(argv)
    given.systems = _VALUES.names("--system", given.system, tuple(SYSTEMS))
    return given


def _asked(given: argparse.Namespace) -> Asked:
    try:
        given.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _VALUES.wrong("--out", str(given.out), f"a folder that can be written ({error.strerror})") from None
    loads = tuple(_VALUES.number("--loads", part.strip(), 0.05, 0.99) for part in given.loads.split(","))
    if len(set(loads)) < len(loads):
        raise _VALUES.wrong("--loads", given.loads, "each once")
    return Asked(
        loads=loads,
        contenders=_VALUES.names("--contenders", given.contenders, pricing.CONTENDERS),
        seconds=_VALUES.number("--seconds", given.seconds, 2, 3_600),
        repetitions=_VALUES.whole("--repetitions", given.repetitions, 1, 100),
        record_at=_VALUES.number("--record-at", given.record_at, 0.05, 0.95),
        folder=given.out,
        talk=LiveTalk(sys.stderr, sys.stderr),
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _VALUES.wrong("arguments", message, "options that exist")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
