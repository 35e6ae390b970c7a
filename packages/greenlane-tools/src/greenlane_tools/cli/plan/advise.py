"""`greenlane plan SOURCE`: what to set, why, what comes of it, and with `--verify` the proof under load."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output, environment
from greenlane.cli.progress import bar
from greenlane.errors import PlanError
from greenlane_tools.cli.plan.arguments import SOURCE, declare_skip

if TYPE_CHECKING:
    from greenlane_tools.plan.advice import Advice
    from greenlane_tools.plan.goal import Goal
    from greenlane_tools.plan.profile import Profile
    from greenlane_tools.plan.sensitivity import WhatIfEffect
    from greenlane_tools.plan.set_up import SetUp
    from greenlane_tools.plan.verify.compared import Compared

__all__ = ["COMMAND"]

_COSTS: Final = ("cores", "memory", "processes", "changes")
_LEAST_JOBS: Final = 10_000
_MOST_JOBS: Final = 100_000_000
_MOST_CORES: Final = 1024
_WIDTH: Final = 118
_WHAT_IFS: Final = ("cpu", "rate", "visits", "split", "move", "upstream")


def _declare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="SOURCE", help=SOURCE)
    add(
        "--goal", action="append", default=[], metavar="GOAL", help='such as "bikes p99.9 <= 500ms"; may be given again'
    )
    add("--cost", choices=_COSTS, default="cores", help="what to spare (cores)")
    add("--cores", type=_whole(1, _MOST_CORES), default=0, metavar="N", help="that may be used (as many as it has)")
    what_if = parser.add_argument_group("what if")
    for name, metavar, said in (
        ("cpu", "[ROUTE=]0.5x", "its CPU were half as much; also +3ms, 12ms"),
        ("rate", "[ROUTE=]2x", "twice as many came; also 30/s"),
        ("visits", "[ROUTE=]N", "it waited in N times for the same I/O: it yields less"),
        ("split", "ROUTE[,…][=N]", "it had processes of its own, beside those there are"),
        ("move", "ROUTE=process", "its longest CPU ran in a worker process; `thread`, `inline`: all its CPU there"),
        ("upstream", "NAME=+50ms", "every call of an upstream took so much longer"),
    ):
        what_if.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=said)
    what_if.add_argument("--slots", metavar="N", help="a process had so many requests in progress at most")
    add("--write", type=Path, metavar="FILE", help="write the recommended settings: greenlane.toml")
    add("--page", type=Path, metavar="FILE", help="write the plan as one HTML file")
    add(
        "--verify", nargs="?", const="", metavar="SCENARIO",
        help="serve the present and the recommended set-up in the lab: the profile's twin, or a scenario of the lab",
    )  # fmt: skip
    add("--verify-seconds", type=_seconds, default=60.0, metavar="S", help="of load for each of the two (60)")
    add("--verify-out", type=Path, default=Path("out/plan"), metavar="FOLDER", help="what was measured (out/plan)")
    add("--jobs", type=_whole(_LEAST_JOBS, _MOST_JOBS), metavar="N", help="requests a simulated set-up (1,000,000)")
    add("--seed", type=_whole(0, 2**31), default=1, metavar="N", help="of the simulated requests (1)")
    declare_skip(parser)
    add("--json", action="store_true", help="one JSON object: the advice, each way that was tried, each route")


def _whole(low: int, high: int) -> Any:
    def read(text: str) -> int:
        word = text.replace(",", "").replace("_", "")
        if word.isascii() and word.isdecimal() and low <= int(word) <= high:
            return int(word)
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number from {low:,} to {high:,}")

    return read


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if 2 <= found <= 3600:
        return found
    raise argparse.ArgumentTypeError(f"{text!r}, expected seconds from 2 to 3600")


@dataclass(frozen=True)
class _Asked:
    """What is planned for: the profile and its set-up, with what-ifs, and what it would be without them."""

    profile: Profile
    base: SetUp
    goals: tuple[Goal, ...]
    #: What was assumed, each a sentence.
    notes: tuple[str, ...]
    before: tuple[Profile, SetUp] | None


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan.advice import advised
    from greenlane_tools.plan.options import JOBS
    from greenlane_tools.plan.sensitivity import effects

    jobs = arguments.jobs or JOBS
    asked = _asked(arguments)
    found: list[WhatIfEffect] = []
    with bar(output, "planning") as told:
        if asked.before is not None:
            after = (asked.profile, asked.base)
            found = effects(asked.before, after, asked.goals, jobs=jobs, seed=arguments.seed, told=told)
        advice = advised(
            asked.profile, asked.goals, cost=arguments.cost, base=asked.base, cores=arguments.cores, jobs=jobs,
            seed=arguments.seed, told=told,
        )  # fmt: skip
    advice = replace(advice, notes=(*asked.notes, *advice.notes), what_if=asked.before is not None)
    proof, notes = _proof(advice, arguments, output)
    _show(advice, found, proof, arguments, output)
    for sentence in notes:
        output.say(f"note: {_plain(sentence)}")
    _write(advice, proof, arguments, output)
    return 0


def _asked(arguments: argparse.Namespace) -> _Asked:
    from greenlane_tools.plan import goal, what_if
    from greenlane_tools.plan.advice import open_loop
    from greenlane_tools.plan.set_up import SetUp, present
    from greenlane_tools.plan.sources import keyed, opened

    profile, notes = open_loop(keyed(opened(arguments.source, skip_s=arguments.skip)))
    base = present(profile)
    options = {name: getattr(arguments, name) for name in _WHAT_IFS}
    changes = what_if.asked(profile, **options, slots=arguments.slots)
    notes += [f"What if: {change.said}." for change in changes]
    goals, said = goal.goals(arguments.goal, profile), ""
    if not goals:
        goals, said = goal.usual_goals(profile)
    if not changes:
        return _Asked(profile, base, goals, tuple(filter(None, [*notes, said])), None)
    changed, table = what_if.applied(changes, profile, base.to_json())
    # Processes of its own stand beside those that there are.
    own = sum(lane["processes"] for lane in table["lanes"] if lane["kind"] == "hard")
    table = {**table, "processes": table["processes"] + own, "cores": max(table["cores"], table["processes"] + own)}
    return _Asked(changed, SetUp.from_json(table), goals, tuple(filter(None, [*notes, said])), (profile, base))


def _proof(advice: Advice, arguments: argparse.Namespace, output: Output) -> tuple[Sequence[Compared], Sequence[str]]:
    if arguments.verify is None:
        return (), ()
    if advice.recommended is None:
        return (), ("Nothing is verified: nothing is recommended.",)
    with needed("lab", "verify the plan in the lab"):
        from greenlane_tools.lab.interruption import ended_by_signals
        from greenlane_tools.lab.run.talk import LiveTalk
        from greenlane_tools.plan.verify.proof import proven
    talk = LiveTalk(output.err, output.err)
    with ended_by_signals():
        found = proven(
            advice, arguments.verify_out, talk, scenario=arguments.verify, seconds=arguments.verify_seconds, fresh=True
        )
    talk.progress("")
    return found.rows, found.notes


def _show(
    advice: Advice,
    found: Sequence[WhatIfEffect],
    proof: Sequence[Compared],
    arguments: argparse.Namespace,
    output: Output,
) -> None:
    from greenlane_tools.plan import sensitivity, settings, words
    from greenlane_tools.plan.verify import compared

    option, staying = settings.writable(advice), settings.stock_of(advice)
    if arguments.json:
        rows = [*words.rows_of(advice), *map(sensitivity.effect_row, found), *map(compared.row_of, proof)]
        if option is not None:
            command = settings.command_of(option.set_up)
            rows.append({"view": "settings", "contender": option.candidate.name,
                         "toml": settings.settings_of(advice, option),
                         "command": command})  # fmt: skip
        if staying is not None:
            rows.append({"view": "stock", "contender": staying.option.candidate.name,
                         "commands": list(staying.commands),
                         "warnings": list(staying.warnings)})  # fmt: skip
        output.document("plan", rows)
        return
    for number, sentence in enumerate(words.answers(advice)):
        for line in textwrap.wrap(_plain(sentence), _WIDTH, break_long_words=False, break_on_hyphens=False):
            output.line(output.styled(line, "bold") if number == 0 else line)
    if found:
        output.line("\nas it is served now")
        output.table(sensitivity.effects_table(found), sensitivity.EFFECT_COLUMNS)
    if advice.options:
        output.line()
        output.table(words.table_of(advice), words.COLUMNS)
    _show_settings(advice, arguments, output)
    if proof:
        output.line("\npredicted and measured")
        output.table(compared.table_of(proof), compared.COLUMNS)


def _show_settings(advice: Advice, arguments: argparse.Namespace, output: Output) -> None:
    from greenlane_tools.plan import settings
    from greenlane_tools.plan.advice import AdviceVerdict

    option, staying = settings.writable(advice), settings.stock_of(advice)
    if option is not None and advice.verdict is not AdviceVerdict.NOTHING and arguments.write is None:
        output.line("\ngreenlane.toml (--write FILE writes it)")
        output.line(settings.settings_of(advice, option).rstrip())
    if staying is not None and advice.verdict is not AdviceVerdict.NOTHING:
        output.line("\nstaying on stock servers")
        for command in staying.commands:
            output.line(f"    {_plain(command)}")
        for text in staying.warnings:
            for line in textwrap.wrap(f"- {_plain(text)}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False):
                output.line(line)


def _write(advice: Advice, proof: Sequence[Compared], arguments: argparse.Namespace, output: Output) -> None:
    from greenlane_tools.plan import settings
    from greenlane_tools.plan.page import page

    option = settings.writable(advice)
    text = settings.settings_of(advice, option) if option is not None else ""
    # First what can always be written.
    if arguments.page is not None:
        html = page(advice, environment(), settings=text, stock=settings.stock_of(advice), proof=proof)
        _written(arguments.page, html, "--page", output)
    if arguments.write is not None:
        if not text:
            rule = "a plan that recommends a set-up of Greenlane's"
            raise PlanError("write the settings", name="--write", value=str(arguments.write), rule=rule,
                            hint="leave it out: nothing is to be set")  # fmt: skip
        _written(arguments.write, text, "--write", output)


def _written(path: Path, text: str, option: str, output: Output) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        rule = f"a file that can be written ({error.strerror})"
        raise PlanError("write the plan", name=option, value=str(path), rule=rule, hint="name another") from None
    output.say(f"{option.lstrip('-')}: {path}")


def _plain(text: str) -> str:
    """Names come from files: what could steer a terminal is written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


COMMAND: Final = Command(
    "advise", "what to set for a goal: limits, processes, permits, lanes, placement", _declare, _run
)
