"""How a bench tells of a run of the lab: tables to stdout, sentences to stderr, no line of progress."""

from __future__ import annotations

import sys


class PlainTalk:
    """The lab's `Talk`."""

    def show(self, text: str) -> None:
        print(text, flush=True)

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def progress(self, text: str) -> None:
        pass
