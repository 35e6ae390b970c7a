"""`greenlane demo pricing`: five ways to serve one service, measured side by side in under four minutes.

    main(argv, out, err) -> exit code      0 well, 1 the run failed, 2 a wrong option, 130 Ctrl-C

It is the scenario `pricing` with options of its own. Data goes to `out`, talk to `err`. In `--out` it leaves samples/
(every request), rows.json (every cell) and pricing.html (one page, offline).
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from greenlane.cli.extra import install
from greenlane.errors import PlatformError
from greenlane_tools.lab.arguments import Parser, Values
from greenlane_tools.lab.run.talk import LiveTalk
from greenlane_tools.lab.scenario import catalogue
from greenlane_tools.lab.scenario.catalogue import adapted
from greenlane_tools.lab.scenario.scenario import Scenario
from greenlane_tools.lab.written import written

if TYPE_CHECKING:
    from greenlane_tools.lab.run.runner import Result

SCHEMA: Final = "greenlane.demo/1"
#: A run that would start later than this past the expected end is left out, so that the whole ends when it said.
LATE_S: Final = 15.0
_PACKAGES: Final = ("flask", "gunicorn", "gevent", "numpy", "pyarrow")
_VALUES: Final = Values("run the pricing demo", "greenlane demo pricing --help lists every option")
#: The scenario's own shares of the CPU: light work is 10 %.
DEFAULT: Final = "light10"
#: Other loads on the same service: shares of the CPU by endpoint, which add up to 1. Empty = as the scenario says.
MIXES: Final[Mapping[str, Mapping[str, float]]] = {
    DEFAULT: {},
    # Twice as much light work: priority for it costs the rest more.
    "light20": {
        "bikes": 0.19, "scooters": 0.01, "quote": 0.56, "surge": 0.09,
        "receipt": 0.05, "report": 0.05, "search": 0.05,
    },
    # Two endpoints only: I/O before the CPU in the heavy one.
    "surge": {"bikes": 0.14, "surge": 0.86},
    # Two endpoints only: the classes of the ideal bound.
    "bikes-quote": {"bikes": 0.10, "quote": 0.90},
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """What is to be run."""

    json: bool
    # Load per cell, all its repetitions together.
    seconds: float
    utilisations_frac: tuple[float, ...]
    contenders: tuple[str, ...]
    mix: str
    repetitions: int
    seed: int
    out: Path


def pricing(mix: str = DEFAULT) -> Scenario:
    """The pricing scenario with the shares of a mix. Its name is the mix's, which its seeds begin with."""
    scenario = catalogue.read(catalogue.found("pricing"))
    return replace(with_shares(scenario, MIXES[mix]) if MIXES[mix] else scenario, name=mix)


def with_shares(scenario: Scenario, shares: Mapping[str, float]) -> Scenario:
    """The scenario with these classes alone, at these shares of the CPU."""
    classes = [replace(one, cpu_share_frac=shares[one.name]) for one in scenario.classes if one.name in shares]
    kept = [one for one in scenario.expectations if one.endpoint in shares]
    return replace(
        scenario,
        # A class whose calibration is not there is calibrated itself.
        classes=tuple(one if one.same_work_as in shares else replace(one, same_work_as="") for one in classes),
        contenders=tuple(
            replace(one, apart=tuple(name for name in one.apart if name in shares)) for one in scenario.contenders
        ),
        expectations=tuple(kept),
        bounds=tuple(one.text for one in kept),
    )


def light_frac(scenario: Scenario) -> float:
    """The share of the CPU that a scenario gives to light classes."""
    return sum(one.cpu_share_frac for one in scenario.classes if one.lane == "light")


def main(argv: Sequence[str], out: TextIO, err: TextIO) -> int:
    """Runs the demo. Blocks until all is done or Ctrl-C; no process of it is left afterwards.

    The help needs no package of the extra `demo`.
    """
    if {"-h", "--help"} & {*argv}:
        out.write(f"{parse(argv)}\n")
        return 0
    from greenlane_tools.lab import demo

    return demo.run(argv, out, err, _VALUES.attempted, parse, _run, "stopped; every server was ended")


def parse(argv: Sequence[str]) -> Options | str:
    """The options, or the text of --help when that was asked for.

    Raises:
        SettingsError: an unknown option, or a value outside its rule.
    """
    scenario = pricing()
    known = tuple(one.name for one in scenario.contenders)
    given = _parser(scenario, known).given(argv)
    if isinstance(given, str):
        return given
    return Options(
        json=given.json,
        seconds=_VALUES.number("--seconds", given.seconds, 1, 3_600),
        utilisations_frac=_VALUES.numbers("--utilisation", given.utilisation, 0.05, 1.5),
        contenders=_VALUES.names("--contenders", given.contenders, known),
        mix=_VALUES.names("--mix", given.mix, tuple(MIXES), at_most=1)[0],
        repetitions=_VALUES.whole("--repetitions", given.repetitions, 1, 100),
        seed=_VALUES.whole("--seed", given.seed, 0, 2**31),
        out=Path(given.out),
    )


def _parser(scenario: Scenario, known: tuple[str, ...]) -> Parser:
    parser = Parser(
        _VALUES,
        prog="greenlane demo pricing",
        description="A Flask service under five servers, one worker each, the same open-loop load: who keeps its "
        "I/O-heavy endpoints in time beside CPU-heavy ones. Ends by itself in under four minutes.",
    )
    add = parser.add_argument
    add("--json", action="store_true", help="one JSON object on stdout in place of the tables")
    seconds, repetitions, seed = f"{scenario.seconds:g}", str(scenario.repetitions), str(scenario.seed)
    utilisations, names = ",".join(f"{one:g}" for one in scenario.utilisations_frac), ",".join(known)
    add("--seconds", default=seconds, help=f"load per cell, over all repetitions ({seconds})")
    add("--utilisation", default=utilisations, help=f"shares of one worker's CPU, with commas ({utilisations})")
    add("--contenders", default=names, help=f"some of {names} (all)")
    add("--mix", default=DEFAULT, help=f"one of {', '.join(MIXES)} ({DEFAULT}: light work is 10 %% of the CPU)")
    add("--repetitions", default=repetitions, help=f"interleaved runs that make up a cell ({repetitions})")
    add("--seed", default=seed, help=f"of arrivals and amounts of work; the same for all contenders ({seed})")
    add("--out", default="out/demo", help="folder for raw samples, rows and the page (out/demo)")
    return parser


def chosen(options: Options) -> Scenario:
    """The scenario that the options ask for."""
    return adapted(
        pricing(options.mix), seconds=options.seconds, repetitions=options.repetitions, seed=options.seed,
        utilisations_frac=options.utilisations_frac,
    )  # fmt: skip


def _run(options: Options, out: TextIO, err: TextIO) -> int:
    if missing := [name for name in _PACKAGES if importlib.util.find_spec(name) is None]:
        raise PlatformError("run the pricing demo", name="packages", value=missing, rule="all of them installed",
                            hint=install("demo"))  # fmt: skip
    from greenlane_tools.lab.run.runner import run_scenario, stored

    # With --json the tables are talk: they still say how it goes.
    talk, scenario = LiveTalk(err if options.json else out, err), chosen(options)
    store = stored(scenario, options.out)
    result = run_scenario(scenario, options.contenders, store, talk, fresh=True, late_s=LATE_S)
    _report(options, result, talk, out)
    took_part = {run.turn.contender for run in result.runs if not run.dead}
    return 0 if took_part == set(options.contenders) else 1


def _report(options: Options, result: Result, talk: LiveTalk, out: TextIO) -> None:
    from greenlane_tools.lab.run import tables
    from greenlane_tools.lab.run.page import document, page

    whole = {**document(result), "schema": SCHEMA}
    rows, html = options.out / "rows.json", options.out / "pricing.html"
    written(rows, json.dumps(whole, indent=1))
    written(html, page(result, "greenlane demo pricing"))
    if options.json:
        out.write(json.dumps(whole) + "\n")
    else:
        talk.show("\n\n".join(["", *tables.shown(result.scenario, result.rows), result.conclusion]).lstrip("\n"))
    for remark in result.remarks:
        talk.say(f"note: {remark}")
    talk.say(f"raw samples {options.out / 'samples'}, rows {rows}, page {html}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout, sys.stderr))
