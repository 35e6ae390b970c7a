"""A command line without passwords in URLs, and without the values of flags that are named for secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["HIDDEN", "redact"]

HIDDEN: Final = "***"
_NAME: Final = (
    r"[\w.-]*(?:passw|passphrase|pwd|secret|token|credential|api-?_?key|access-?_?key|private-?_?key|auth|dsn)[\w.-]*"
)
#: `NAME=value`, with or without dashes; also within a URL's query.
_GIVEN: Final = re.compile(rf"(^|[?&;,\s])(-{{0,2}}{_NAME})=([^&;,\s]*)", re.IGNORECASE)
#: A flag whose value is the next word.
_FLAG: Final = re.compile(rf"--?{_NAME}", re.IGNORECASE)
_IN_URL: Final = re.compile(r"(://)[^/@\s]*@")


def redact(words: Iterable[str]) -> list[str]:
    """Give the words with `***` for each secret."""
    said: list[str] = []
    follows = False
    for word in words:
        if follows and not word.startswith("-"):
            said.append(HIDDEN)
            follows = False
            continue
        follows = _FLAG.fullmatch(word) is not None
        said.append(_GIVEN.sub(rf"\1\2={HIDDEN}", _IN_URL.sub(rf"\1{HIDDEN}@", word)))
    return said
