"""The report on one screen: the verdict, what to do, how to check it, and the command that shows more."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from greenlane_tools.report.study import ReportStudy

__all__ = ["brief_lines"]

#: More notes, of the verdict or of what the recording lacks, do not fit.
_MOST_NOTES: Final = 3
#: Stacks are sampled of what runs; who has something and waits itself has none.
_UNSEEN: Final = "not recorded: `py-spy dump --pid PID` while it is slow shows where {} stands"


def brief_lines(study: ReportStudy, file: str) -> Iterator[str]:
    """The lines.

    Args:
        file: the recording as the command was told it.
    """
    verdict = study.verdict
    yield verdict.sentence
    yield from study.unobserved.splitlines()
    proof = "greenlane report " + shlex.quote(file)
    if study.routes:
        if verdict.holder is not None:
            yield f"line     {verdict.line or _UNSEEN.format(verdict.holder.who)}"
        yield f"do       {verdict.remedy.text}."
        yield f"check    {verdict.remedy.check}"
    for said in study.recording.notes[:_MOST_NOTES]:
        yield f"note     {said}"
    for said in verdict.notes[:_MOST_NOTES]:
        yield f"also     {said.removeprefix('Also: ')}"
    if verdict.victim is not None:
        proof += f" --route {shlex.quote(verdict.victim.route)}"
    yield f"proof    {proof}"
