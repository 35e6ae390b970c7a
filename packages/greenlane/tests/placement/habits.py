"""Functions with habits that speak for or against another process: module-level, so that one can have them by name."""

from __future__ import annotations

import contextvars
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy
from tests.placement.work import burn

from greenlane.placement.processes import inside

REQUEST: contextvars.ContextVar[str] = contextvars.ContextVar("request", default="")
LOCK = threading.Lock()
SEEN: list[int] = []
COUNT = 0
BURN_MS = 4.0


class Spool(tempfile._TemporaryFileWrapper):  # type: ignore[type-arg]
    """A file of this process, by a class of its user's."""


SPOOL = Spool(None, "")  # type: ignore[arg-type]


class Counter:
    """An object with a method that changes it, as its code shows or not, and one that does not."""

    def __init__(self) -> None:
        self.count = 0
        self.seen: list[int] = []

    def counts(self, number: int) -> None:
        self.count += number

    def remembers(self, number: int) -> None:
        self.seen.append(number)

    def adds(self, number: int) -> int:
        return self.count + number

    __call__ = counts


class Odd:
    """What cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("odd")


def plain(number: int) -> tuple[int, int]:
    burn(BURN_MS)
    return os.getpid(), number


def light(number: int) -> int:
    return number


def gives(value: object) -> object:
    return value


def gives_odd(number: int) -> Odd:
    burn(BURN_MS)
    return Odd()


def takes_anything(value: object) -> int:
    burn(BURN_MS)
    return os.getpid()


def writes_to_argument(rows: list[int]) -> None:
    burn(BURN_MS)
    rows[0] = 7


def sorts_argument(rows: list[int]) -> None:
    burn(BURN_MS)
    rows.sort()


def sorts_a_copy(rows: list[int]) -> list[int]:
    burn(BURN_MS)
    rows = list(rows)
    rows.sort()
    return rows


def lets_another_write(rows: list[int]) -> None:
    burn(BURN_MS)
    _write(rows)


def _write(rows: list[int]) -> None:
    rows[0] += 1


def counts(number: int) -> None:
    global COUNT
    burn(BURN_MS)
    COUNT += number


def remembers(number: int) -> None:
    burn(BURN_MS)
    SEEN.append(number)


def reads_the_request(number: int) -> str:
    burn(BURN_MS)
    return REQUEST.get()


def takes_the_lock_inside(number: int) -> list[int]:
    def inner() -> int:
        with LOCK:
            return number

    return [inner()]


def counts_inside(number: int) -> None:
    def inner() -> None:
        global COUNT
        COUNT += number

    inner()


def spools(number: int) -> None:
    SPOOL.write(number)


def fails_in_a_worker() -> None:
    raise LookupError("warm-up")


def takes_the_lock(number: int) -> int:
    burn(BURN_MS)
    with LOCK:
        return number


def ones(count: int) -> numpy.ndarray[Any, Any]:
    return numpy.ones(count)


def dies_in_a_worker(marks: Path) -> int:
    with marks.open("a") as file:
        file.write("x")
    if inside.WORKER:
        os._exit(3)
    return os.getpid()


def raises(number: int) -> None:
    raise LookupError(number)


def where(begun: Path | None = None, let_go: Path | None = None) -> tuple[int, int]:
    if begun is not None and let_go is not None:
        from tests.placement.work import held

        held(begun, let_go)
    return os.getpid(), threading.get_native_id()


def where_it_burns() -> tuple[int, int]:
    burn(BURN_MS)
    return where()
