"""The line of code at which a culprit was: the innermost frame of the application, not of a library below it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from greenlane.record.rows import Stack

__all__ = ["Frame", "frames", "own_frame", "places"]

_FRAME: Final = re.compile(r"^(?P<function>.*) \((?P<file>.*):(?P<line>\d+)\)$", re.DOTALL)
#: Files of these are libraries'; the line that a team can change is above them.
_LIBRARY: Final = re.compile(r"site-packages|dist-packages|(^|/)python3[.\d]*/|^<")
#: Stacks may keep only a file's folder and name. Then these folders are taken for libraries': packages of the standard
#: library, and those of servers, frameworks and clients that most services have.
_LIBRARY_FOLDERS: Final = sys.stdlib_module_names | frozenset(
    """futures gunicorn workers http uvicorn protocols gevent _socket3 greenlet flask werkzeug django handlers wsgiref
    starlette middleware fastapi aiohttp celery kombu billiard pool requests urllib3 util httpx httpcore _transports
    redis psycopg psycopg2 asyncpg sqlalchemy orm engine jinja2 pydantic opentelemetry ddtrace sentry_sdk greenlane
    observed probes hosts record click anyio _backends uvloop waitress cheroot granian bottle falcon""".split()
)


class Frame(NamedTuple):
    """One frame of a stack."""

    function: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """ "pricing.py:88"."""
        return f"{self.file.rpartition('/')[2]}:{self.line}" if self.file else self.function

    @property
    def library(self) -> bool:
        """Whether it belongs to a library, or to the interpreter."""
        if not self.file or _LIBRARY.search(self.file) is not None:
            return True
        folders = self.file.split("/")[:-1]
        # A whole path says where it is from; two parts only say the folder.
        return len(folders) == 1 and folders[0] in _LIBRARY_FOLDERS


def frames(stack: str) -> list[Frame]:
    """From the outermost; a frame in another form keeps its text as its function."""
    return [_frame(text) for text in stack.split(";") if text]


def own_frame(stack: str) -> Frame | None:
    """The innermost frame of the application; the innermost of all when there is none. None of an empty stack."""
    found = frames(stack)
    return next((frame for frame in reversed(found) if not frame.library), found[-1] if found else None)


def places(stacks: Iterable[Stack]) -> Mapping[str, Frame]:
    """For each culprit the frame at which it spent most while others waited."""
    weights: dict[str, dict[Frame, int]] = {}
    for row in stacks:
        frame = own_frame(row.stack)
        if frame is not None:
            of = weights.setdefault(row.culprit, {})
            of[frame] = of.get(frame, 0) + row.ns
    return {culprit: max(of, key=lambda frame: of[frame]) for culprit, of in weights.items()}


def _frame(text: str) -> Frame:
    found = _FRAME.match(text)
    return Frame(found["function"], found["file"], int(found["line"])) if found else Frame(text, "", 0)
