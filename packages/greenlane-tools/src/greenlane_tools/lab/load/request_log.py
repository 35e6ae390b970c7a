"""Requests that other programs have logged: when each arrived, its method and path, and which lines hold none.

A line that holds no request (a broken one, a port scan) is left out and counted.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from greenlane.errors import SettingsError
from greenlane_tools.page.quantities import count

ATTEMPTED: Final = "read the arrivals to replay"
FORMS: Final = (
    "a recording (.glr), a table (.parquet, .csv), an access log of nginx or Apache, HAR, JSON of k6, or "
    "stats_history.csv of locust"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True)
class Logged:
    """The requests of one file, in its order: lists of one length."""

    # ns since the epoch.
    at_ns: NDArray[np.int64]
    # "GET /path" or "GET http://host/path", without the query.
    routes: list[str]
    # What makes the arrivals less exact than they look, a sentence each.
    notes: tuple[str, ...] = ()


@dataclass
class Lines:
    """A text's lines that are not empty, each with its number; counts those that hold no request."""

    stream: Iterable[str]
    number: int = 0
    full: int = 0
    bad: int = 0
    first_bad: int = 0
    notes: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self.stream:
                self.number += 1
                if text := line.strip():
                    self.full += 1
                    yield text
        except (EOFError, gzip.BadGzipFile, zlib.error):
            self.notes.append(f"its compressed data breaks off after line {count(self.number)}")

    def reject(self) -> None:
        """The line that was given last holds no request."""
        self.bad += 1
        self.first_bad = self.first_bad or self.number

    def remarks(self) -> tuple[str, ...]:
        """About what was left out."""
        first = f"the first of them is line {count(self.first_bad)}"
        left_out = f"{count(self.bad)} of its {count(self.full)} lines hold no request and are left out ({first})"
        return (*self.notes, *([left_out] if self.bad else []))


def refuse(path: Path, why: str, hint: str = "name another file, or make a table of it") -> SettingsError:
    """Why a file is not read, beside the forms that are."""
    return SettingsError("recorded", str(path), f"{FORMS} ({why})", hint, attempted=ATTEMPTED)


def chosen(found: Logged, route: str) -> NDArray[np.bool_]:
    """Which of the requests are of a route: `GET /path`, `/path` or its URL; `*` stands for anything."""
    wanted = re.compile(re.escape(route).replace(r"\*", ".*"))

    @cache
    def matches(name: str) -> bool:
        return any(wanted.fullmatch(one) for one in _names(name))

    return np.array([matches(name) for name in found.routes], np.bool_)


def _names(route: str) -> tuple[str, ...]:
    method, _, url = route.partition(" ")
    path = url if url.startswith("/") else urlsplit(url).path
    return route, url, f"{method} {path}", path


def route_of(method: str, url: str) -> str:
    """As in `Logged.routes`.

    Raises:
        ValueError: that is no URL.
    """
    urlsplit(url)
    return f"{method} {re.split('[?#]', url, maxsplit=1)[0]}"


def moment_of(text: str) -> datetime:
    """Of ISO 8601, or of nginx' and Apache's own form, `29/Nov/2026:10:00:00 +0000`.

    Raises:
        ValueError: it is neither.
    """
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        from apachelogs import parse_apache_timestamp

        moment: datetime = parse_apache_timestamp(text)
        return moment


def at_ns_of(moment: datetime) -> int:
    """ns since the epoch; without a time zone it is taken for UTC, since only differences count."""
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND_NS + since.microseconds * 1_000


def spread(at_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole seconds, with those of one second spread evenly over it in their order."""
    _, where, counts = np.unique(at_ns, return_inverse=True, return_counts=True)
    order = np.argsort(where, kind="stable")
    rank = np.empty(len(at_ns), np.int64)
    rank[order] = np.arange(len(at_ns)) - np.repeat(np.cumsum(counts) - counts, counts)
    return at_ns + ((rank + 0.5) / counts[where] * SECOND_NS).astype(np.int64)
