"""`greenlane plan SOURCE`: what to set, why, with what result, and with `--verify` the proof under load."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane.cli.progress import bar
from greenlane.errors import PlanError
from greenlane_tools.cli.plan.arguments import SOURCE, declare_skip, seconds

if TYPE_CHECKING:
    from greenlane_tools.plan.advice import Advice
    from greenlane_tools.plan.goal import Goal
    from greenlane_tools.plan.profile import Profile
    from greenlane_tools.plan.set_up import SetUp
    from greenlane_tools.plan.verify.compared import Compared
    from greenlane_tools.report.verdict import Verdict

_LEAST_JOBS: Final = 10_000
_MOST_JOBS: Final = 100_000_000
_MOST_CORES: Final = 1024
_WIDTH: Final = 118
#: Of the profile, that are shown.
_MOST_NOTES: Final = 5
_WHAT_IFS: Final = ("cpu", "rate", "split")


def _declare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="SOURCE", help=SOURCE)
    add(
        "--goal", action="append", default=[], metavar="GOAL", help='such as "bikes p99.9 <= 500ms"; may be given again'
    )
    add("--cores", type=_whole(1, _MOST_CORES), default=0, metavar="N", help="that may be used (as many as it has)")
    what_if = parser.add_argument_group("what if")
    for name, metavar, said in (
        ("cpu", "[ROUTE=]0.5x", "its CPU were half as much"),
        ("rate", "[ROUTE=]2x", "twice as many came"),
        ("split", "ROUTE[,…][=N]", "it had processes of its own, beside those there are"),
    ):
        what_if.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=said)
    add("--all", action="store_true", help="show every way that was tried, not five")
    add("--write", type=Path, metavar="FILE", help="write the recommended settings: greenlane.toml")
    add(
        "--verify", nargs="?", const="", metavar="SCENARIO",
        help="serve the present and the recommended set-up in the lab: the profile's twin, or a scenario of the lab",
    )  # fmt: skip
    add("--verify-seconds", type=seconds(2, 3600), default=60.0, metavar="S", help="of load for each of the two (60)")
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


@dataclass(frozen=True)
class _Asked:
    """What is planned for: the profile and its set-up, with what-ifs; and what was assumed, each a sentence."""

    profile: Profile
    base: SetUp
    goals: tuple[Goal, ...]
    notes: tuple[str, ...]
    what_if: bool
    recorded: Verdict | None


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan.advice import advised
    from greenlane_tools.plan.options import JOBS

    asked = _asked(arguments)
    with bar(output, "planning") as told:
        advice = advised(
            asked.profile, asked.goals, base=asked.base, cores=arguments.cores, jobs=arguments.jobs or JOBS,
            seed=arguments.seed, told=told,
        )  # fmt: skip
    advice = replace(advice, notes=(*advice.notes, *asked.notes), what_if=asked.what_if, recorded=asked.recorded)
    proof, notes = _proof(advice, arguments, output)
    _show(advice, proof, arguments, output)
    for sentence in notes:
        output.say(f"note: {_plain(sentence)}")
    if arguments.write is not None:
        _write(advice, arguments.write, output)
    return 0


def _asked(arguments: argparse.Namespace) -> _Asked:
    from greenlane_tools.plan import goal, what_if
    from greenlane_tools.plan.set_up import present
    from greenlane_tools.plan.sources import keyed, opened, verdict_at

    read = opened(arguments.source, skip_s=arguments.skip)
    profile, recorded = keyed(read), verdict_at(arguments.source, read)
    base, notes = present(profile), list(profile.notes[:_MOST_NOTES])
    changes = what_if.asked(profile, **{name: getattr(arguments, name) for name in _WHAT_IFS})
    notes += [f"What if: {change.said}." for change in changes]
    goals = goal.goals(arguments.goal, profile)
    if not goals:
        goals, said = goal.usual_goals(profile)
        notes.append(said)
    if not changes:
        return _Asked(profile, base, goals, tuple(notes), what_if=False, recorded=recorded)
    changed, then = what_if.applied(changes, profile, base)
    # Processes of its own stand beside those that there are.
    own = sum(lane.processes for lane in then.hard)
    then = replace(then, processes=then.processes + own, cores=max(then.cores, then.processes + own))
    return _Asked(changed, then, goals, tuple(notes), what_if=True, recorded=recorded)


def _proof(advice: Advice, arguments: argparse.Namespace, output: Output) -> tuple[Sequence[Compared], Sequence[str]]:
    if arguments.verify is None:
        return (), ()
    if advice.recommended is None:
        return (), ("Nothing is verified: nothing is recommended.",)
    with needed("lab", "verify the plan in the lab"):
        from greenlane_tools.lab.ending import ended_by_signals
        from greenlane_tools.lab.run.talk import LiveTalk
        from greenlane_tools.plan.verify.proof import proven
    talk = LiveTalk(output.err, output.err)
    with ended_by_signals():
        found = proven(
            advice, arguments.verify_out, talk, scenario=arguments.verify, seconds=arguments.verify_seconds, fresh=True
        )
    talk.progress("")
    return found.rows, found.notes


def _show(advice: Advice, proof: Sequence[Compared], arguments: argparse.Namespace, output: Output) -> None:
    from greenlane_tools.plan import settings, words
    from greenlane_tools.plan.verify import compared

    option = settings.writable(advice)
    toml = settings.settings_of(advice, option) if option is not None else ""
    if arguments.json:
        rows = [*words.rows_of(advice), *map(compared.row_of, proof)]
        if option is not None:
            rows.append({"view": "settings", "contender": option.candidate.name, "toml": toml,
                         "command": settings.command_of(option)})  # fmt: skip
        verdict = advice.recorded.to_json() if advice.recorded else None
        output.document("plan", rows, verdict=verdict)
        return
    for number, sentence in enumerate(words.answers(advice)):
        for line in textwrap.wrap(_plain(sentence), _WIDTH, break_long_words=False, break_on_hyphens=False):
            output.line(output.styled(line, "bold") if number == 0 else line)
    if option is not None:
        output.line("\ngreenlane.toml (--write FILE writes it)" if toml else "\nset")
        output.line(toml.rstrip() or f"    {_plain(settings.command_of(option))}")
    if advice.options:
        output.line()
        rows = words.table_of(advice, everything=arguments.all)
        output.table(rows, words.COLUMNS)
        if left := len(advice.options) - len(rows):
            output.line(f"{left} more ways were tried (--all shows them)")
    if proof:
        output.line("\npredicted and measured")
        output.table(compared.table_of(proof), compared.COLUMNS)


def _write(advice: Advice, path: Path, output: Output) -> None:
    from greenlane_tools.plan import settings

    option = settings.writable(advice)
    text = settings.settings_of(advice, option) if option is not None else ""
    if not text:
        rule = "a plan that recommends a set-up of Greenlane's"
        raise PlanError("write the settings", name="--write", value=str(path), rule=rule,
                        hint="leave it out: nothing is to be set")  # fmt: skip
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        rule = f"a file that can be written ({error.strerror})"
        raise PlanError("write the plan", name="--write", value=str(path), rule=rule, hint="name another") from None
    output.say(f"write: {path}")


def _plain(text: str) -> str:
    """Names come from files: what could steer a terminal is written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


COMMAND: Final = Command(
    "advise", "say what to set for a goal: limits, processes, permits, lanes", _declare, _run,
    examples=(
        "greenlane plan shop.glr --goal 'bikes p99 <= 500ms'",
        "greenlane plan shop.glr --rate 2x --write greenlane.toml",
    ),
)  # fmt: skip
