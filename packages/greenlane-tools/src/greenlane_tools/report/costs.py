"""Where small costs hide: what culprits did while others waited, by function and by kind of work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.reader.rows import Stack
from greenlane_tools.report.places import frames, own_frame

__all__ = ["Cost", "by_function", "by_work", "job_cpu"]

#: Kinds of work by what their frames are called; the innermost frame that matches decides.
_WORK: Final[Mapping[str, re.Pattern[str]]] = {
    "JSON": re.compile(r"\bjson/|orjson|ujson|simplejson|rapidjson|JSONEncoder|JSONDecoder"),
    "pickle": re.compile(r"pickle|copyreg|_reduction"),
    "validation": re.compile(r"pydantic|marshmallow|jsonschema|cerberus|voluptuous|attr/validators|serializers"),
    "TLS": re.compile(r"\bssl\.py|OpenSSL|cryptography"),
    "logging": re.compile(r"\blogging/|loguru|structlog"),
    "templates": re.compile(r"jinja2|mako|django/template|chameleon"),
    "database mapping": re.compile(r"sqlalchemy|django/db|peewee|psycopg|tortoise"),
    "regular expressions": re.compile(r"\bre/__init__|\bre\.py|sre_"),
    "compression": re.compile(r"zlib|gzip|brotli|zstd|bz2|lzma"),
    "deep copies": re.compile(r"\bcopy\.py"),
    "tracing and metrics": re.compile(r"opentelemetry|ddtrace|sentry_sdk|newrelic|prometheus_client|statsd"),
    "framework": re.compile(r"werkzeug|flask/|django/|starlette|fastapi|aiohttp/web|gunicorn|uvicorn|celery/"),
    "garbage collection": re.compile(r"^gc\b|gc\.collect"),
}
_OTHER: Final = "the application's own code"


@dataclass(frozen=True)
class Cost:
    """One function or kind of work."""

    name: str
    #: Where it was most; "" = unknown.
    place: str
    #: Lateness it inflicted on others: samples are taken only while somebody waits.
    lateness_ns: int
    #: Of all lateness with a stack; 0 to 1.
    lateness_frac: float
    #: Times that a culprit was seen at it: few of them make the share a guess.
    looks: int
    #: Routes it was done for, most first.
    culprits: Sequence[str]


def by_function(stacks: Iterable[Stack]) -> list[Cost]:
    """The application's own innermost functions, most lateness first."""
    named = []
    for row in stacks:
        frame = own_frame(row.stack)
        if frame is not None:
            named.append((frame.function, frame.place, row))
    return _costs(named)


def by_work(stacks: Iterable[Stack]) -> list[Cost]:
    """Kinds of work that hide in libraries, most lateness first."""
    return _costs([(*_work(row.stack), row) for row in stacks if row.stack])


def job_cpu(cpu_ns: int, lateness_ns: int) -> float:
    """How much lateness a unit of CPU inflicted: 2 = each ms of it cost others 2 ms. 0 without CPU."""
    return lateness_ns / cpu_ns if cpu_ns else 0.0


def _work(stack: str) -> tuple[str, str]:
    for frame in reversed(frames(stack)):
        text = f"{frame.function} {frame.file}"
        for name, pattern in _WORK.items():
            if pattern.search(text) and (frame.library or name == "garbage collection"):
                return name, frame.place
        if not frame.library:
            break
    own = own_frame(stack)
    return _OTHER, own.place if own else ""


def _costs(named: Sequence[tuple[str, str, Stack]]) -> list[Cost]:
    total: dict[str, int] = {}
    looks: dict[str, int] = {}
    placed: dict[str, dict[str, int]] = {}
    caused: dict[str, dict[str, int]] = {}
    for name, place, row in named:
        total[name] = total.get(name, 0) + row.ns
        looks[name] = looks.get(name, 0) + row.looks
        of = placed.setdefault(name, {})
        of[place] = of.get(place, 0) + row.ns
        who = caused.setdefault(name, {})
        who[row.culprit] = who.get(row.culprit, 0) + row.ns
    whole = sum(total.values()) or 1
    return [
        Cost(
            name=name,
            place=max(placed[name], key=lambda place: placed[name][place]),
            lateness_ns=total[name],
            lateness_frac=total[name] / whole,
            looks=looks[name],
            culprits=sorted(caused[name], key=lambda culprit: -caused[name][culprit]),
        )
        for name in sorted(total, key=lambda name: (-total[name], name))
    ]
