"""How the command line writes: data to stdout, talk to stderr, tables for people, one JSON object for programs."""

from __future__ import annotations

import json
import os
import platform
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from greenlane._native import __version__

__all__ = ["Output", "cell", "environment"]

Row = Mapping[str, object]

_STYLES: Final[Mapping[str, str]] = {"bold": "1", "green": "32", "yellow": "33", "red": "31"}


@dataclass(frozen=True)
class Output:
    """The two streams of a run.

    Args:
        out: data.
        err: talk.
        color: whether `out` may carry colours.
    """

    out: TextIO
    err: TextIO
    color: bool = False

    @classmethod
    def standard(cls) -> Output:
        """stdout and stderr. Colours where stdout is a terminal that knows them and `NO_COLOR` is empty or unset."""
        color = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(sys.stdout, sys.stderr, color)

    def say(self, text: str) -> None:
        """Talk: a line to stderr."""
        print(text, file=self.err, flush=True)

    def line(self, text: str = "") -> None:
        """Data: a line to stdout."""
        print(text, file=self.out)

    def document(self, command: str, rows: Iterable[Row], **more: object) -> None:
        """Data for programs: the one object of `--json`, with fields of its own beside the rows."""
        document = {"schema": f"greenlane.{command}/1", "environment": environment(), **more, "rows": list(rows)}
        print(json.dumps(document, indent=2, default=str), file=self.out)

    def table(self, rows: Sequence[Row], columns: Sequence[str]) -> None:
        """Data for people: a heading and a line a row; numbers to the right."""
        cells = [[cell(row.get(column)) for column in columns] for row in rows]
        widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
        right = [
            bool(rows) and all(isinstance(row.get(column), int | float | None) for row in rows) for column in columns
        ]
        self.line(self.styled(_join(columns, widths, right), "bold"))
        for line in cells:
            self.line(_join(line, widths, right))

    def styled(self, text: str, style: str) -> str:
        """The text in a style, where colours are allowed."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color else text


def environment() -> dict[str, object]:
    """Where a result comes from, for the `environment` of a `--json` object."""
    return {
        "greenlane": __version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "platform": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def _join(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        each.rjust(width) if to_right else each.ljust(width)
        for each, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()


def cell(value: object) -> str:
    """Give a value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    # Names come from files and other processes: what could steer a terminal is written out.
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))
