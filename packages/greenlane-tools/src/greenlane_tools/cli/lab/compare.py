"""`greenlane lab compare`: results laid over each other: better, worse, or the same."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output, environment
from greenlane.errors import GreenlaneError, SettingsError

if TYPE_CHECKING:
    from greenlane_tools.lab.compare.study import Comparison, Study

_ATTEMPT: Final = "compare results"
_RESULT: Final = "a result folder of `greenlane lab run`, FOLDER:CONTENDER, a file of samples, or a recording"
_COLUMNS: Final = ("where", "what", "A", "B", "change", "95 % interval", "verdict", "why")


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", nargs="+", metavar="RESULT", help=f"{_RESULT}; all are compared with the first")
    parser.add_argument("-o", "--output", type=Path, metavar="PAGE", help="also write the page with the distributions")
    parser.add_argument("--json", action="store_true", help="one JSON object, a row a comparison")
    parser.add_argument(
        "--deadline-ms", action="append", default=[], type=_deadline, metavar="[ENDPOINT=]MS",
        help="deadline of an endpoint, or of all others; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--smallest-frac", type=_frac, default=0.05, metavar="FRAC",
        help="a smaller effect on latency or throughput is the same (0.05)",
    )  # fmt: skip
    parser.add_argument("--fail-if-worse", action="store_true", help="exit with 1 when anything is worse, for CI")


def _deadline(text: str) -> tuple[str, float]:
    endpoint, _, number = text.rpartition("=")
    try:
        found = float(number)
    except ValueError:
        found = 0.0
    if 0 < found < float("inf"):
        return endpoint, found
    raise argparse.ArgumentTypeError(f"{text!r}, expected milliseconds > 0, or ENDPOINT=MILLISECONDS")


def _frac(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if 0 <= found <= 10:
        return found
    raise argparse.ArgumentTypeError(f"{text!r}, expected a number from 0 to 10, such as 0.05")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    with needed("lab", _ATTEMPT):
        from greenlane_tools.lab.compare import sources, study
    subjects = sources.subjects(arguments.results)
    if len(subjects) < 2:
        raise _alone(arguments.results[0], subjects[0].contenders())
    deadlines = dict(arguments.deadline_ms)
    found = study.study_of(
        subjects, deadlines_ms={name: ms for name, ms in deadlines.items() if name}, deadline_ms=deadlines.get(""),
        smallest_frac=arguments.smallest_frac,
    )  # fmt: skip
    for caution in found.cautions:
        output.say(f"warning: {caution}")
    if arguments.output is not None:
        _write_page(arguments.output, found, output)
    _print(found, output, as_json=arguments.json)
    return 1 if arguments.fail_if_worse and any(each.verdict.word.value == "worse" for each in found.comparisons) else 0


def _alone(argument: str, contenders: Sequence[str]) -> SettingsError:
    several = [name for name in contenders if name]
    hint = "name a second one"
    if len(several) > 1:
        hint = f"to compare its contenders: {argument}:{several[0]} {argument}:{several[1]}"
    return SettingsError("results", argument, "at least two results", hint, attempted=_ATTEMPT)


def _write_page(path: Path, found: Study, output: Output) -> None:
    from greenlane_tools.lab.compare.page import page

    try:
        path.write_text(page(found, environment()), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        rule = f"a file that can be written ({error.strerror})"
        raise GreenlaneError(_ATTEMPT, name="output", value=str(path), rule=rule, hint="name another with -o") from None
    output.say(f"page: {path}")


def _print(found: Study, output: Output, *, as_json: bool) -> None:
    from greenlane_tools.lab.compare.page import conclusion, rows_of

    if as_json:
        output.document("compare", rows_of(found))
        return
    output.line(output.styled(conclusion(found), "bold"))
    first, *others = found.subjects
    for other in others:
        rows = [_row(each) for each in found.comparisons if each.b == other.name]
        output.line()
        output.line(f"A = {first.name}, B = {other.name}")
        output.table(rows, _COLUMNS)
    tests = len(found.comparisons)
    output.line()
    output.line(
        f"{tests} comparison{'s' * (tests != 1)}; a verdict takes all of them into account (Holm, 5 % together), "
        f"an interval is for one comparison. The same: less than {found.smallest_frac * 100:g} %, or it cannot be told."
    )


def _row(each: Comparison) -> Mapping[str, object]:
    from greenlane_tools.lab.compare.page import between, change, value

    return {
        "where": each.place.name,
        "what": each.quantity.title,
        "A": value(each.quantity, each.a_value.at),
        "B": value(each.quantity, each.b_value.at),
        "change": change(each),
        "95 % interval": between(each),
        "verdict": each.verdict.word.value,
        "why": each.verdict.because,
    }


COMMAND: Final = Command(
    "compare", "compare results: better, worse, or the same", _declare, _run,
    examples=(
        "greenlane lab compare out/lab/before out/lab/after",
        "greenlane lab compare before.glr after.glr --fail-if-worse",
    ),
)  # fmt: skip
