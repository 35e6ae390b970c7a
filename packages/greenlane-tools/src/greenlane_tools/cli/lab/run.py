"""`greenlane lab run`: a scenario from its file to tables, page and rows."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane.errors import ArgumentError, SettingsError
from greenlane.settings.refusal import nearest

if TYPE_CHECKING:
    from greenlane_tools.lab.run.runner import Result
    from greenlane_tools.lab.run.store import Store
    from greenlane_tools.lab.scenario.scenario import Scenario

_ATTEMPTED: Final = "run a scenario"
_OUT: Final = Path("out/lab")


def _declare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("scenario", nargs="?", metavar="NAME|FILE", help="a scenario by name (see --list), or its TOML file")
    add("--list", action="store_true", help="scenarios that have a name, with their questions")
    add("--json", action="store_true", help="one JSON object on stdout in place of the tables")
    add("--check", action="store_true", help="exit 1 when a bound of the scenario does not hold")
    add("--seconds", metavar="S", help="load per cell, over all repetitions; phases are stretched alike")
    add("--repetitions", metavar="N", help="interleaved runs that make up a cell")
    add("--contenders", metavar="A,B", help="some of the scenario's (all)")
    add("--seed", metavar="N", help="of arrivals and amounts of work")
    add("--out", type=Path, metavar="FOLDER", help=f"raw samples, rows and the page ({_OUT}/NAME)")
    add("--fresh", action="store_true", help="forget what an earlier run left in --out")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.list:
        return _list(output)
    if arguments.scenario is None:
        raise ArgumentError("NAME", None, "a scenario", "greenlane lab run --list names them", attempted=_ATTEMPTED)
    with needed("lab", _ATTEMPTED):
        from greenlane_tools.lab.ending import ended_by_signals
        from greenlane_tools.lab.run import page, runner
        from greenlane_tools.lab.run.talk import LiveTalk
    scenario = _scenario(arguments)
    names = _contenders(arguments.contenders, [one.name for one in scenario.contenders])
    folder: Path = arguments.out or _OUT / scenario.name
    output.say(f"{scenario.name}: {page.said(scenario.question)}")
    output.say(f"expected: {page.said(scenario.expected)}")
    talk = LiveTalk(output.err if arguments.json else output.out, output.err)
    store = runner.stored(scenario, folder)
    try:
        with ended_by_signals():
            result = runner.run_scenario(scenario, names, store, talk, fresh=arguments.fresh)
    except KeyboardInterrupt:
        talk.progress("")
        output.say(f"stopped, and all processes ended; finished runs are kept in {folder}, the same command resumes")
        return 130
    _report(arguments, result, store, folder, output)
    failed = arguments.check and any(one.verdict != "holds" for one in result.judgements)
    return 1 if failed or not result.complete else 0


def _list(output: Output) -> int:
    from greenlane_tools.lab.scenario.catalogue import missing, questions

    found = list(questions())
    wide = max((len(name) for name, _, _ in found), default=0)
    for name, asked, _ in found:
        output.line(f"{output.styled(name.ljust(wide), 'bold')}  {' '.join(asked.split())}")
    if said := missing():
        output.say(said)
    return 0


def _scenario(arguments: argparse.Namespace) -> Scenario:
    from greenlane_tools.lab.arguments import Values
    from greenlane_tools.lab.scenario import catalogue

    scenario = catalogue.read(catalogue.found(arguments.scenario))
    values, given = Values(_ATTEMPTED), arguments
    return catalogue.adapted(
        scenario,
        seconds=None if given.seconds is None else values.number("--seconds", given.seconds, 0.5, 36_000),
        repetitions=None if given.repetitions is None else values.whole("--repetitions", given.repetitions, 1, 100),
        seed=None if given.seed is None else values.whole("--seed", given.seed, 0, 2**31),
    )


def _contenders(text: str | None, known: list[str]) -> list[str]:
    if text is None:
        return known
    names = [part.strip() for part in text.split(",")]
    wrong = [name for name in names if name not in known]
    if wrong or len(set(names)) < len(names):
        hint = nearest(wrong[0], known) if wrong else "name each once"
        raise SettingsError(
            "--contenders", text, f"some of {', '.join(known)}, with commas", hint, attempted=_ATTEMPTED
        )
    return names


def _report(arguments: argparse.Namespace, result: Result, store: Store, folder: Path, output: Output) -> None:
    from greenlane_tools.lab.run.page import document, page

    whole = document(result)
    try:
        with store.writing():
            (folder / "rows.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
            (folder / "page.html").write_text(page(result), encoding="utf-8")
    finally:  # a full disk does not cost what was measured
        if arguments.json:
            output.line(json.dumps(whole))
        else:
            _tables(result, output)
        for remark in result.remarks:
            output.say(f"note: {remark}")
    output.say(f"raw samples {folder / 'samples'}, rows {folder / 'rows.json'}, page {folder / 'page.html'}")


def _tables(result: Result, output: Output) -> None:
    from greenlane_tools.lab.run import tables
    from greenlane_tools.lab.run.page import marked

    crossed = marked(result)
    for text in tables.shown(result.scenario, result.rows, crossed):
        output.line("\n" + text)
    if crossed:
        output.line("  † runs are missing, or a service died in one: see the notes")
    output.line(f"\n{result.conclusion}")
    for judgement in result.judgements:
        style = {"holds": "green", "fails": "red"}.get(judgement.verdict, "yellow")
        output.line("  " + output.styled(judgement.said(), style))


COMMAND: Final = Command(
    "run", "run a scenario: contenders side by side under the same load", _declare, _run,
    examples=("greenlane lab run --list", "greenlane lab run pricing --seconds 20"),
)  # fmt: skip
