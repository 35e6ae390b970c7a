"""`greenlane doctor -- COMMAND…`: which of its settings do nothing, harm, or keep it from starting."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from greenlane.cli.output import Output
from greenlane.errors import SettingsError

if TYPE_CHECKING:
    from greenlane_tools.lab.doctor.live import Seen
    from greenlane_tools.lab.doctor.subject import Finding, Subject, Times

__all__ = ["examine"]

_WIDTH: Final = 100
_COLORS: Final[Mapping[str, str]] = {"does not start": "red", "does nothing": "yellow", "harms": "red"}


def examine(arguments: argparse.Namespace, output: Output) -> tuple[list[dict[str, object]], bool]:
    """Prints what was found of `arguments.passed_on`, unless with --json; gives its rows, and whether it may stay.

    Raises:
        SettingsError: the command is not understood, or one of --cpu-ms and --network-ms is missing.
    """
    from greenlane_tools.lab.doctor.command import ask, parse
    from greenlane_tools.lab.doctor.examining import examined
    from greenlane_tools.lab.doctor.subject import SERIOUS

    times = _times(arguments)
    parsed = parse(arguments.passed_on)
    if parsed.server == "gunicorn":
        output.say(
            "its configuration file, if it has one, runs in a process of its own; the application is not imported"
        )
    subject = ask(parsed, times)
    findings = examined(subject)
    seen = _seen(parsed, subject, output) if arguments.check_live else None
    if not arguments.json:
        _show(subject, findings, seen, output)
    refused = {"does not start", *(SERIOUS if arguments.strict else ())}
    return _rows(subject, findings, seen), refused.isdisjoint(finding.verdict for finding in findings)


def _times(arguments: argparse.Namespace) -> Times | None:
    from greenlane_tools.lab.doctor.subject import Times

    if (arguments.cpu_ms is None) != (arguments.network_ms is None):
        missing = "--cpu-ms" if arguments.cpu_ms is None else "--network-ms"
        raise SettingsError(missing, None, "both or none", "give both", attempted="examine the command")
    return None if arguments.cpu_ms is None else Times(arguments.cpu_ms, arguments.network_ms)


def _seen(parsed: object, subject: Subject, output: Output) -> Seen:
    from greenlane_tools.lab.doctor.command import Parsed
    from greenlane_tools.lab.doctor.live import look

    assert isinstance(parsed, Parsed)
    output.say("starting it on an address of its own")
    return look(parsed, subject)


def _rows(subject: Subject, findings: Sequence[Finding], seen: Seen | None) -> list[dict[str, object]]:
    server = {
        "view": "server",
        "server": subject.server,
        "version": subject.version,
        "python": subject.python,
        "worker_class": subject.worker_class,
        "workers": subject.number("workers") or 1,
        "addresses": list(subject.addresses),
        "kernel": subject.kernel.release,
        "listeners": None if seen is None else seen.listeners,
        "listening_processes": None if seen is None else seen.processes,
        "said": "" if seen is None else seen.said,
    }
    return [server, *({"view": "finding", **asdict(finding)} for finding in findings)]


def _show(subject: Subject, findings: Sequence[Finding], seen: Seen | None, output: Output) -> None:
    workers = subject.number("workers") or 1
    plural = "worker" if workers == 1 else "workers"
    where = ", ".join(subject.addresses)
    output.line(
        f"{subject.named} on Python {subject.python}, {workers} {subject.worker_class} {plural}, {where}, "
        f"Linux {subject.kernel.release}"
    )
    if seen is not None:
        output.line(_tested(seen))
    if not findings:
        output.line("nothing found")
    for finding in findings:
        output.line()
        verdict = output.styled(finding.verdict, _COLORS.get(finding.verdict, "bold"))
        output.line(f"{finding.setting} = {finding.value!r} ({finding.origin}): {verdict}")
        _paragraph("", finding.because, output)
        _paragraph("do: ", finding.remedy, output)
        _paragraph("evidence: ", finding.evidence, output)


def _tested(seen: Seen) -> str:
    if not seen.listeners:
        return f"tested: it did not start; it said:\n{textwrap.indent(seen.said, '  ')}"
    sockets = "listener" if seen.listeners == 1 else "listeners"
    return f"tested: {seen.listeners} {sockets}, open in {seen.processes} processes"


def _paragraph(name: str, text: str, output: Output) -> None:
    for line in textwrap.wrap(
        f"{name}{text}", _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    ):
        output.line(line)
