"""`greenlane report FILE`: what a recording says, as a page, as text, as rows and for other tools."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output, environment
from greenlane.errors import GreenlaneError, RecordingError, SettingsError
from greenlane.record.recorder import PARTS
from greenlane.settings.refusal import nearest

if TYPE_CHECKING:
    from greenlane_tools.report.study import ReportStudy
    from greenlane_tools.report.subject import RecordedRows

__all__ = ["COMMAND"]

_ATTEMPT: Final = "report on a recording"
_EMPTY: Final = ", empty: nothing was sampled, as no job waited or computed for 10 ms at a time; record it under load"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a recording: a file of `greenlane record`, or its folder"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="PAGE", help="the page (FILE with .html); - = none")
    parser.add_argument("--json", action="store_true", help="one JSON object, one row per finding; no page without -o")
    parser.add_argument(
        "--brief",
        action="store_true",
        help="one screen: who waits for what, at which line, what to do; no page without -o",
    )
    parser.add_argument("--folded", action="store_true", help="print culprits' collapsed stacks; no page without -o")
    parser.add_argument("--trace", type=Path, metavar="TRACE", help="also write Chrome trace events (- = stdout)")
    parser.add_argument(
        "--pprof", type=Path, metavar="PB.GZ", help="also culprits' stacks and jobs' own CPU, for pprof and its kin"
    )
    parser.add_argument(
        "--compare", type=Path, metavar="BEFORE", help="compare with an earlier recording; no page without -o"
    )
    parser.add_argument("--route", help="only jobs of this route")
    parser.add_argument("--last", type=_duration, metavar="TIME", help="only the last 90s, 5m, 2h …")
    parser.add_argument(
        "--from", dest="since", default="", metavar="TIME", help="only from this time: 14:02 (UTC), or ISO 8601"
    )
    parser.add_argument("--to", dest="until", default="", metavar="TIME", help="only until this time")
    parser.add_argument(
        "--slowest", type=_slowest, default=10, metavar="N", help="how many of the slowest jobs to draw (10)"
    )


def _slowest(text: str) -> int:
    if text.isdecimal() and int(text) <= 200:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number from 0 to 200")


def _duration(text: str) -> float:
    from greenlane_tools.reader.window import duration_s

    try:
        return duration_s(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.report import brief, culprits, json_rows, study, text
    from greenlane_tools.report.trace import write_trace

    to_stdout = str(arguments.trace) == "-"
    if arguments.json + arguments.folded + arguments.brief + to_stdout > 1:
        name, value = ("--trace", "-") if to_stdout else ("--brief" if arguments.brief else "--folded", True)
        rule = "one of --json, --folded, --brief and --trace -: stdout has one form"
        raise SettingsError(name, value, rule, "run it once for each", attempted=_ATTEMPT)
    recording = _chosen(_opened(arguments, arguments.file), arguments.route)
    found = study.study_of(recording, arguments.slowest)
    _write_page(arguments, found, output)
    if to_stdout:
        write_trace(recording, output.out)
        return 0
    if arguments.pprof is not None:
        _write_pprof(arguments.pprof, recording, found, output)
    if arguments.trace is not None:
        _write_trace(arguments.trace, recording, output)
    if arguments.json:
        output.document("report", json_rows.rows_of(found), verdict=found.verdict.to_json())
    elif arguments.compare is not None:
        _compare(_opened(arguments, arguments.compare), recording, output)
    elif arguments.brief:
        for line in brief.brief_lines(found, str(arguments.file)):
            output.line(text.plain(line))
    elif arguments.folded:
        for line in culprits.folded_lines(recording.stacks):
            output.line(line)
    else:
        _text(found, output)
    return 0


def _opened(arguments: argparse.Namespace, path: Path) -> RecordedRows:
    growing = Path(f"{path}{PARTS}")
    if not path.exists() and growing.is_dir():  # still recorded, or its command was killed before it merged them
        path = growing
    if not path.exists():
        hint = "`greenlane record -o FILE -- COMMAND` writes one"
        raise RecordingError(_ATTEMPT, name="FILE", value=str(path), rule="a recording that exists", hint=hint)
    from greenlane_tools.reader.recording import open_recording
    from greenlane_tools.reader.window import Window

    if arguments.last is not None and (arguments.since or arguments.until):
        arguments.parser.error("expected --last, or --from and --to, not both")
    return open_recording(path, Window(arguments.last, arguments.since, arguments.until))


def _chosen(recording: RecordedRows, route: str | None) -> RecordedRows:
    if route is None:
        return recording
    known = sorted({job.route for job in recording.jobs})
    if route not in known:
        hint = nearest(route, known) or f"it has {', '.join(known[:5]) or 'no jobs'}"
        raise SettingsError("--route", route, "a route of the recording", hint, attempted=_ATTEMPT)
    from greenlane_tools.report.subject import of_route

    return of_route(recording, route)


def _write_page(arguments: argparse.Namespace, found: ReportStudy, output: Output) -> None:
    path: Path | None = arguments.output
    if path is None:
        if arguments.compare or arguments.json or arguments.folded or arguments.brief or str(arguments.trace) == "-":
            return
        path = arguments.file.with_name(f"{arguments.file.name.removesuffix('.glr') or 'recording'}.html")
    if str(path) == "-":
        return
    from greenlane_tools.report.page import page

    _write(path, page(found, arguments.file.name, environment()))
    output.say(f"page: {path}")


def _write_trace(path: Path, recording: RecordedRows, output: Output) -> None:
    from greenlane_tools.report.trace import write_trace

    try:
        with open(path, "w", encoding="utf-8", opener=_private) as out:
            write_trace(recording, out)
    except OSError as error:
        raise _unwritable(path, error) from None
    output.say(f"trace: {path}")


def _write_pprof(path: Path, recording: RecordedRows, found: ReportStudy, output: Output) -> None:
    from greenlane_tools.report.pprof import write_pprof

    clocks = next((process.about for process in recording.processes if "started_unix_ns" in process.about), {})
    at_ns = found.from_ns + int(str(clocks.get("started_unix_ns", 0))) - int(str(clocks.get("started_ns", 0)))
    try:
        with open(path, "wb", opener=_private) as out:
            write_pprof(recording.stacks, recording.own, at_ns if clocks else 0, found.to_ns - found.from_ns, out)
    except OSError as error:
        raise _unwritable(path, error) from None
    output.say(f"pprof: {path}{'' if recording.stacks or recording.own else _EMPTY}")


def _compare(before: RecordedRows, after: RecordedRows, output: Output) -> None:
    from greenlane_tools.report import differences

    for said in differences.unlike(before, after):
        output.line(f"- not recorded alike: {said}")
    output.table(list(differences.differences(before, after)), differences.COLUMNS)


def _private(path: str, flags: int) -> int:
    """As a recording is: routes, hosts and lines of code are the owner's to show."""
    return os.open(path, flags, 0o600)


def _write(path: Path, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace", opener=_private) as out:
            out.write(text)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> GreenlaneError:
    rule = f"a file that can be written ({error.strerror})"
    return GreenlaneError(_ATTEMPT, name="output", value=str(path), rule=rule, hint="name another with -o or --trace")


def _text(found: ReportStudy, output: Output) -> None:
    from greenlane_tools.report import text
    from greenlane_tools.report.overhead import overhead_sentence

    verdict = found.verdict
    output.line(output.styled(text.plain(verdict.sentence), "bold"))
    for line in found.unobserved.splitlines():
        output.line(text.plain(line))
    if found.routes:
        output.line(text.plain(f"Do: {verdict.remedy.text}. Check: {verdict.remedy.check}"))
    for said in verdict.notes:
        output.line(f"- {text.plain(said)}")
    for note in found.recording.notes:
        output.say(f"note: {text.plain(note)}")
    for heading, rows, columns in text.sections(found):
        output.line()
        output.line(text.plain(heading))
        output.table(rows, columns)
    if found.overhead is not None:
        output.line()
        output.line(f"{overhead_sentence(found.overhead)} An estimate; the page says what it leaves out.")


COMMAND: Final = Command(
    "report", "show what a recording says: page, text, JSON, trace, stacks", _declare, _run,
    examples=("greenlane report shop.glr", "greenlane report shop.glr --brief"),
)  # fmt: skip
