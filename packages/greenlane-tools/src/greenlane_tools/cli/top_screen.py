"""The terminal of `greenlane top`: what fits it, a line of keys, and the key that was pressed."""

from __future__ import annotations

import contextlib
import io
import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from greenlane.cli.output import Output

__all__ = ["SORTS", "Screen", "fitted"]

Line = Mapping[str, object]

#: Key -> column that the routes are sorted by, and what the line of keys calls it; None = what waits most now.
SORTS: Final[Mapping[str, tuple[str | None, str]]] = {
    "w": (None, "wait"), "9": ("p99_ms", "p99"), "5": ("p50_ms", "p50"), "c": ("cpu_ms", "CPU"),
    "i": ("io_ms", "I/O"), "j": ("jobs_per_s", "jobs/s"), "r": ("route", "route"),
}  # fmt: skip
#: Columns that a narrow terminal does without, in this order.
_LEAST: Final = (
    *("p99_10s_ms", "lag_10s_ms_p99", "file_mb", "jobs", "samples", "skipped", "lent", "hold_ms", "would_wait", "lost"),
    *("pinned", "released_frac", "charged", "shared", "express", "in_progress", "wait_frac", "busy_frac"),
    *("timed_out", "refused", "slow_frac", "failed_frac", "usual_ms", "late", "reason"),
)
_NAMES: Final = ("route", "function", "key")
_GAP: Final = 2


class Screen:
    """A terminal that is drawn over and over, or just a stream.

    Args:
        output: where to.
        live: draw over a terminal.
    """

    def __init__(self, output: Output, *, live: bool) -> None:
        self._output = output
        self.is_live = live and output.out.isatty()
        self._keys = self.is_live and sys.stdin.isatty()

    @property
    def columns(self) -> int:
        """0 = as many as are wanted."""
        return shutil.get_terminal_size().columns if self.is_live else 0

    @contextlib.contextmanager
    def drawing(self) -> Iterator[Output]:
        """What is written to this output is shown whole, cut where the terminal ends."""
        if not self.is_live:
            yield self._output
            self._output.out.flush()
            return
        text = io.StringIO()
        yield replace(self._output, out=text)
        size = shutil.get_terminal_size()
        shown = [_cut(line, size.columns) for line in text.getvalue().rstrip("\n").split("\n")[: size.lines - 2]]
        self._output.out.write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in shown) + "\x1b[J")
        self._output.out.flush()

    def show_keys(self, sort: str | None) -> None:
        """Write the line of keys at the bottom."""
        if self._keys:
            parts = [f"{key} {name}{'*' if column == sort else ''}" for key, (column, name) in SORTS.items()]
            line = _cut(f"q quit   sort by  {'  '.join(parts)}", self.columns)
            self._output.out.write(f"\x1b[{shutil.get_terminal_size().lines};1H{line}\x1b[K")
            self._output.out.flush()

    def wait(self, seconds: float) -> str:
        """The key that was pressed meanwhile; "" = none."""
        if not self._keys:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return os.read(sys.stdin.fileno(), 1).decode("latin-1") if ready else ""

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """The terminal's other screen and single keys meanwhile; as it was afterwards."""
        if not self._keys:
            yield
            return
        before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        self._output.out.write("\x1b[?1049h\x1b[?25l")
        try:
            yield
        finally:
            self._output.out.write("\x1b[?25h\x1b[?1049l")
            self._output.out.flush()
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def fitted(rows: Sequence[Line], columns: Sequence[str], width: int, cell: Callable[[object], str] = str) -> (
    tuple[Sequence[Line], Sequence[str]]
):  # fmt: skip
    """Rows and columns that fit this many characters: less wanted columns go, then names are cut. 0 = all fit."""
    kept = list(columns)
    over = _over(rows, kept, width, cell)
    for column in _LEAST:
        if over > 0 and column in kept:
            kept.remove(column)
            over = _over(rows, kept, width, cell)
    if over <= 0:
        return rows, kept
    name = next((each for each in _NAMES if each in kept), None)
    if name is None:
        return rows, kept
    room = max(8, max(len(cell(row.get(name))) for row in rows) - over)
    return [{**row, name: _shortened(cell(row.get(name)), room)} for row in rows], kept


def _over(rows: Sequence[Line], columns: Sequence[str], width: int, cell: Callable[[object], str]) -> int:
    if not width:
        return 0
    wide = sum(max(len(column), *(len(cell(row.get(column))) for row in rows), 0) for column in columns)
    return wide + _GAP * (len(columns) - 1) - width


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _cut(line: str, columns: int) -> str:
    """A line of one style at most, which is its first and last characters."""
    if not line.startswith("\x1b"):
        return line[:columns]
    begin, _, rest = line.partition("m")
    end = "\x1b[0m"
    return f"{begin}m{rest.removesuffix(end)[:columns]}{end}"
