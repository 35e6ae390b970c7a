"""How a run tells of itself: tables to one stream, sentences and a line of progress to the other."""

from __future__ import annotations

from typing import TextIO

__all__ = ["LiveTalk"]

_CLEAR = "\r\x1b[K"


class LiveTalk:
    """Progress is written over itself, and only to a terminal.

    Args:
        tables: where tables go: data, or talk when stdout has another form.
        talk: where the rest goes.
    """

    def __init__(self, tables: TextIO, talk: TextIO) -> None:
        self._tables = tables
        self._talk = talk
        self._live = talk.isatty()
        self._open = False

    def show(self, text: str) -> None:
        """A table, or a line of one."""
        self.progress("")
        print(text, file=self._tables, flush=True)

    def say(self, text: str) -> None:
        """A sentence."""
        self.progress("")
        print(text, file=self._talk, flush=True)

    def progress(self, text: str) -> None:
        """What is being done now; "" = nothing any more."""
        if self._live and (text or self._open):
            self._talk.write(f"{_CLEAR}  {text}" if text else _CLEAR)
            self._talk.flush()
            self._open = bool(text)
