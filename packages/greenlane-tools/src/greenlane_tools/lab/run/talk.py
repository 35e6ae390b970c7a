"""How a run tells of itself: tables to one stream, sentences and a line of progress to the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol, TextIO

from greenlane_tools.lab.ending import CLEAR


class Talk(Protocol):
    """Reports the progress of a run."""

    def show(self, text: str) -> None:
        """A table, or a line of one."""

    def say(self, text: str) -> None:
        """A sentence."""

    def progress(self, text: str) -> None:
        """What is being done now; "" = nothing."""


class LiveTalk:
    """`Talk` to two streams. Progress is written over itself, and only to a terminal.

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
        """As `Talk`."""
        self.progress("")
        self._tables.write(f"{text}\n")
        self._tables.flush()

    def say(self, text: str) -> None:
        """As `Talk`."""
        self.progress("")
        self._talk.write(f"{text}\n")
        self._talk.flush()

    def progress(self, text: str) -> None:
        """As `Talk`."""
        if self._live and (text or self._open):
            self._talk.write(f"{CLEAR}  {text}" if text else CLEAR)
            self._talk.flush()
            self._open = bool(text)


def give(document: Mapping[str, object] | None, text: str, talk: Talk, out: TextIO) -> None:
    """Give what was found to `out`: one JSON object, and the text as talk; without an object the text.

    Args:
        document: the object, where one was asked for.
        text: the same for people.
        talk: hears of it.
        out: stdout.
    """
    if document is not None:
        talk.say(text)
        out.write(json.dumps(document) + "\n")
    else:
        talk.progress("")
        out.write(f"{text}\n")
