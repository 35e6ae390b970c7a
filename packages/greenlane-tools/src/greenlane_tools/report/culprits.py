"""Who made others wait: names and lines of code, the matrix of victims and culprits, functions, collapsed stacks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from greenlane_tools.reader.rows import Blame, Stack

__all__ = [
    "CodeSpot",
    "CulpritCode",
    "StackFrame",
    "Matrix",
    "by_function",
    "by_work",
    "called",
    "folded_lines",
    "frames",
    "job_cpu",
    "matrix_of",
    "own_coroutine",
    "own_frame",
    "places",
    "spot_of",
    "spots",
    "stacks_of",
]

_FRAME: Final = re.compile(r"^(?P<coroutine>async )?(?P<function>.*) \((?P<file>.*):(?P<line>\d+)\)$", re.DOTALL)
#: Files of these are libraries', or ours; the line that a team can change is above them. An application's path is its
#: last two parts in a recording, a library's begins at one of these folders.
_LIBRARY: Final = re.compile(r"(^|/)(site|dist)-packages/|(^|/)python3[.\d]*t?/|^<|^greenlane/(?!demo/)")
#: Our frames around the program's code. They are no culprit.
_OURS: Final = re.compile(r"^greenlane(_\w+)?/(?!demo/)")
_CALLED: Final[Mapping[str, str]] = {
    "os": "the operating system, which ran others on this machine",
    "gc": "the garbage collector",
    "native": "native code that held the GIL",
    "loop": "the event loop's own work",
    "thread": "a thread without a job",
    "blocked": "calls that block past the functions that are watched",
    "unknown": "something that the recording cannot name",
}
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
#: Frames in which a framework makes the answer out of what the application returned.
_ANSWERS: Final = re.compile(
    r"^(serialize_response|jsonable_encoder|make_response|\S*Response\.(__init__|render)|finalize_response) "
)
_OTHER: Final = "the application's own code"
_SCRIPT: Final = re.compile(r"(?:^|/)bin/[^/.]+$")


class StackFrame(NamedTuple):
    """One frame of a stack."""

    function: str
    file: str
    line: int
    #: A coroutine, or an asynchronous generator: what computes in it, or below it, keeps its loop.
    coroutine: bool = False

    @property
    def place(self) -> str:
        """ "pricing.py:88"."""
        return f"{self.file.rpartition('/')[2]}:{self.line}" if self.file else self.function

    @property
    def library(self) -> bool:
        """Whether it belongs to a library, or to the interpreter; so does the script that pip has made of a command."""
        if self.function == "<module>" and _SCRIPT.search(self.file):
            return True
        return not self.file or _LIBRARY.search(self.file) is not None


def frames(stack: str) -> list[StackFrame]:
    """From the outermost, without Greenlane's own; a frame in another form keeps its text as its function."""
    return [frame for frame in map(_frame, filter(None, stack.split(";"))) if not _OURS.match(frame.file)]


def own_frame(stack: str) -> StackFrame | None:
    """The innermost frame of the application; the innermost of all when there is none. None of an empty stack."""
    found = frames(stack)
    return next((frame for frame in reversed(found) if not frame.library), found[-1] if found else None)


def own_coroutine(stack: str) -> tuple[StackFrame, str] | None:
    """The application's innermost coroutine, and the function that it had called; "" = it computed itself.

    None where there is none, or where a library's coroutine computes: that is not the application's to move.
    """
    found = frames(stack)
    innermost = next((place for place in range(len(found) - 1, -1, -1) if found[place].coroutine), None)
    if innermost is None or found[innermost].library:
        return None
    return found[innermost], found[innermost + 1].function if innermost + 1 < len(found) else ""


class CodeSpot(NamedTuple):
    """Where somebody was most: the frame that a team can change, and what stands behind it."""

    frame: StackFrame
    #: The function that the application's innermost coroutine, else that frame, had called; "" = it computed itself.
    call: str
    #: It ran in a coroutine: on the event loop.
    coroutine: bool
    #: The application's code had returned: a framework validated and encoded its answer.
    after_handler: bool

    @property
    def text(self) -> str:
        """ "pricing.py:88 total"."""
        function = self.frame.function.partition(".<locals>")[0]
        return f"{self.frame.place} {function}" if self.frame.file else function


def spots(rows: Iterable[tuple[str, str, int] | Stack]) -> Mapping[str, CodeSpot]:
    """For each culprit the function, and the line in it, at which it spent most while others waited.

    Args:
        rows: (culprit, stack, ns), or more behind them.
    """
    weights: dict[str, dict[CodeSpot, int]] = {}
    for culprit, stack, ns, *_ in rows:
        spot = spot_of(stack)
        if spot is not None:
            of = weights.setdefault(culprit, {})
            of[spot] = of.get(spot, 0) + ns
    return {culprit: _most(of) for culprit, of in weights.items()}


def places(stacks: Iterable[Stack]) -> Mapping[str, StackFrame]:
    """For each culprit the frame at which it spent most while others waited."""
    return {culprit: spot.frame for culprit, spot in spots(stacks).items()}


def spot_of(stack: str) -> CodeSpot | None:
    """The frame that a team can change; None of an empty stack."""
    found = frames(stack)
    place = next((at for at in range(len(found) - 1, -1, -1) if not found[at].library), None)
    after = None
    if place is None:
        after = next((at for at, frame in enumerate(found) if _ANSWERS.search(f"{frame.function} {frame.file}")), None)
        place = after if after is not None else len(found) - 1
    if place < 0:
        return None
    coroutine = own_coroutine(stack)
    call = coroutine[1] if coroutine else found[place + 1].function if place + 1 < len(found) else ""
    return CodeSpot(found[place], call, any(frame.coroutine for frame in found), after is not None)


def _most(of: Mapping[CodeSpot, int]) -> CodeSpot:
    """Of the function with most, the line with most."""
    functions: dict[tuple[str, str], int] = {}
    for spot, ns in of.items():
        key = spot.frame.function, spot.frame.file
        functions[key] = functions.get(key, 0) + ns
    most = max(functions, key=lambda key: functions[key])
    return max((spot for spot in of if (spot.frame.function, spot.frame.file) == most), key=lambda spot: of[spot])


def _frame(text: str) -> StackFrame:
    found = _FRAME.match(text)
    if found is None:
        return StackFrame(text, "", 0)
    return StackFrame(found["function"], found["file"], int(found["line"]), found["coroutine"] is not None)


def called(culprit: str) -> str:
    """The culprit in a sentence; a route is called what it is."""
    return _CALLED.get(culprit, culprit)


@dataclass(frozen=True)
class Matrix:
    """Victims and culprits, the largest sums first."""

    victims: Sequence[str]
    culprits: Sequence[str]
    cells: Mapping[tuple[str, str], int]
    #: ns of all cells.
    whole_ns: int
    #: ns by victim and by culprit, over all and not only those in the lists.
    by_victim: Mapping[str, int]
    by_culprit: Mapping[str, int]

    def share(self, victim: str, culprit: str) -> float:
        """Of the victim's wait, what the culprit caused; 0 to 1."""
        whole = self.by_victim.get(victim, 0)
        return self.cells.get((victim, culprit), 0) / whole if whole else 0.0

    def cut(self, most: int, rest: str = "others") -> Matrix:
        """At most this many of each; those left out together as `rest`."""
        if len(self.victims) <= most and len(self.culprits) <= most:
            return self
        kept_victims, kept_culprits = set(self.victims[:most]), set(self.culprits[:most])
        cells: dict[tuple[str, str], int] = {}
        for (victim, culprit), ns in self.cells.items():
            key = (victim if victim in kept_victims else rest, culprit if culprit in kept_culprits else rest)
            cells[key] = cells.get(key, 0) + ns
        victims = [*self.victims[:most], *[rest] * (len(self.victims) > most)]
        culprits = [*self.culprits[:most], *[rest] * (len(self.culprits) > most)]
        return Matrix(victims, culprits, cells, self.whole_ns, self.by_victim, self.by_culprit)


def matrix_of(blame: Iterable[Blame]) -> Matrix:
    """The matrix over all kinds of wait."""
    cells: dict[tuple[str, str], int] = {}
    victims: dict[str, int] = {}
    culprits: dict[str, int] = {}
    for row in blame:
        cells[row.victim, row.culprit] = cells.get((row.victim, row.culprit), 0) + row.ns
        victims[row.victim] = victims.get(row.victim, 0) + row.ns
        culprits[row.culprit] = culprits.get(row.culprit, 0) + row.ns
    by_victim = dict(sorted(victims.items(), key=lambda item: (-item[1], item[0])))
    by_culprit = dict(sorted(culprits.items(), key=lambda item: (-item[1], item[0])))
    return Matrix(list(by_victim), list(by_culprit), cells, sum(victims.values()), by_victim, by_culprit)


@dataclass(frozen=True)
class CulpritCode:
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


def by_function(stacks: Iterable[Stack]) -> list[CulpritCode]:
    """The application's own innermost functions, most lateness first."""
    named = []
    for row in stacks:
        frame = own_frame(row.stack)
        if frame is not None:
            named.append((frame.function, frame.place, row))
    return _costs(named)


def by_work(stacks: Iterable[Stack]) -> list[CulpritCode]:
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


def _costs(named: Sequence[tuple[str, str, Stack]]) -> list[CulpritCode]:
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
        CulpritCode(
            name=name,
            place=max(placed[name], key=lambda place: placed[name][place]),
            lateness_ns=total[name],
            lateness_frac=total[name] / whole,
            looks=looks[name],
            culprits=sorted(caused[name], key=lambda culprit: -caused[name][culprit]),
        )
        for name in sorted(total, key=lambda name: (-total[name], name))
    ]


def stacks_of(stacks: Iterable[Stack]) -> Iterator[tuple[str, int]]:
    """(culprit and its frames without Greenlane's own, ns)."""
    for row in stacks:
        shown = (text for text in row.stack.split(";") if text and not _OURS.match(_frame(text).file))
        yield ";".join((row.culprit.replace(";", ":"), *shown)), row.ns


def folded_lines(stacks: Iterable[Stack]) -> list[str]:
    """Equal stacks added up, in order of their text."""
    total: dict[str, int] = {}
    for stack, ns in stacks_of(stacks):
        line = " ".join(stack.split("\n"))
        total[line] = total.get(line, 0) + ns
    return [f"{stack} {ns}" for stack, ns in sorted(total.items()) if ns > 0]
