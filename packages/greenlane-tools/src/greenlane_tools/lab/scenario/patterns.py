"""Forms that texts of a scenario have: (regular expression, the rule in words)."""

from __future__ import annotations

from typing import Final

from greenlane.settings.setting import Pattern

__all__ = ["FORMULA", "MAYBE_NAME", "MAYBE_PATH", "NAME", "PATH", "SENTENCE", "TEXT"]

_WORD: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"

NAME: Final[Pattern] = (_WORD, "a name of letters, digits, dots, dashes and underscores")
MAYBE_NAME: Final[Pattern] = (rf"({_WORD})?", f"{NAME[1]}, or nothing")
PATH: Final[Pattern] = (r"/[^\s]*", "a path that begins with / and has no space")
MAYBE_PATH: Final[Pattern] = (r"(/[^\s]*)?", f"{PATH[1]}, or nothing")
SENTENCE: Final[Pattern] = (r"(?s).*\S.*", "a sentence")
TEXT: Final[Pattern] = (r"(?s).+", "a text that is not empty")
# FILE:FUNCTION; see `Scenario.work`.
FORMULA: Final[Pattern] = (r"([^:\s]+\.py:[A-Za-z_]\w*)?", "FILE.py:FUNCTION, or nothing")
