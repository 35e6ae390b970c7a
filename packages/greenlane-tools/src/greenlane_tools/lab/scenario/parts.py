"""The small parts of a scenario: phases, faults, closed-loop tools, contenders, services, bounds."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from greenlane.settings.setting import Pattern, declare

_WORD: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"

NAME: Final[Pattern] = (_WORD, "a name of letters, digits, dots, dashes and underscores")
MAYBE_NAME: Final[Pattern] = (rf"({_WORD})?", f"{NAME[1]}, or nothing")
PATH: Final[Pattern] = (r"/[^\s]*", "a path that begins with / and has no space")
MAYBE_PATH: Final[Pattern] = (r"(/[^\s]*)?", f"{PATH[1]}, or nothing")
SENTENCE: Final[Pattern] = (r"(?s).*\S.*", "a sentence")
TEXT: Final[Pattern] = (r"(?s).+", "a text that is not empty")
# FILE:FUNCTION; see `Scenario.work`.
FORMULA: Final[Pattern] = (r"([^:\s]+\.py:[A-Za-z_]\w*)?", "FILE.py:FUNCTION, or nothing")


# --- A stretch of the load.


@dataclass(frozen=True)
class Phase:
    """`[[phase]]`: one after another without a pause; a request belongs to the phase in which it was due."""

    name: str = declare("", "The `phase` of its rows.", reason="each has one", pattern=NAME)
    seconds: float = declare(
        5.0, "Its length; `--seconds` stretches all alike.", reason="arbitrary", unit="s", low=0.05, high=3_600.0
    )
    rate_factor: float = declare(
        1.0, "Every class's rate × this.", reason="the rate that was said", low=0.0, high=1_000.0
    )
    counted: bool = declare(
        True, "Its requests are in the rows of the whole run; false: only in its own.", reason="all are load"
    )


# --- What goes wrong.


@dataclass(frozen=True)
class Fault:
    """`[[fault]]`: done to the processes for real, in every run, at the same time for each contender."""

    kind: str = declare(
        "stall",
        "stall: SIGSTOP to all processes of the service, SIGCONT after `seconds`. kill: SIGKILL to one worker (the "
        "oldest child of the process that was started; where it has none, that process). slow: what the service says "
        "is held back by `delay_ms`, for `seconds`. refuse: new connections to it are refused, for `seconds`.",
        reason="the commonest: a garbage collection, a swapped host, a paused container",
        choices=("stall", "kill", "slow", "refuse"),
    )
    at_s: float = declare(0.0, "When, from the start of its phase.", reason="at once", unit="s", low=0.0, high=3_600.0)
    phase: str = declare("", "Its phase; nothing = the first.", reason="most loads have one", pattern=MAYBE_NAME)
    seconds: float = declare(
        1.0, "How long it lasts; a kill has no length.", reason="visible in a p99 of 100 s", unit="s",
        low=0.001, high=600.0,
    )  # fmt: skip
    delay_ms: float = declare(
        500.0, "Of slow: by how much each piece of an answer is held back.", reason="beyond most deadlines",
        unit="ms", low=0.1, high=60_000.0,
    )  # fmt: skip
    service: str = declare(
        "", "Of which service; nothing = the one under load.", reason="it is in question", pattern=MAYBE_NAME
    )


# --- Closed-loop tools beside the open loop.

H2LOAD: Final = "h2load"
#: Programs that are skipped by name where they are missing.
TOOLS: Final = (H2LOAD, "ab", "wrk")


@dataclass(frozen=True)
class Contrast:
    """`[contrast]`: after each run the same contender under clients that wait for their answer before they ask again.

    Its figures are rows of the stage that the tool's name is; the faults come at the same times.
    """

    tools: tuple[str, ...] = declare(
        (),
        f"Some of {', '.join(TOOLS)}. One that is not installed is left out by name.",
        reason="none unless asked for",
        pattern=("|".join(TOOLS), f"one of {', '.join(TOOLS)}"),
    )
    connections: int = declare(
        2,
        "Clients, each with a connection of its own.",
        reason="arbitrary: few, as a quick check has",
        low=1,
        high=1_000,
    )
    endpoint: str = declare("", "The class that is asked; nothing = the first.", reason="one path", pattern=MAYBE_NAME)
    repetitions: int = declare(
        1, "In this many of the repetitions.", reason="one shows it, and costs as long as a run", low=1, high=100
    )


# --- One way to serve.


@dataclass(frozen=True)
class Contender:
    """`[[contender]]`: the services that are not shared, with what differs. All meet the same requests, in turns."""

    name: str = declare("", "The `contender` of its rows.", reason="each has one", pattern=NAME)
    arguments: tuple[str, ...] = declare(
        (), "Put in place of `{arguments}` in the service's command.", reason="the command as it stands"
    )
    env: Mapping[str, str] = declare({}, "Added to the service's environment.", reason="most need none")
    command: tuple[str, ...] = declare(
        (), "In place of the service's command; none = unchanged.", reason="the same program", pattern=TEXT
    )
    service: str = declare(
        "", "Service whose command and environment differ; nothing = the one under load.", reason="it is in question",
        pattern=MAYBE_NAME,
    )  # fmt: skip
    apart: tuple[str, ...] = declare(
        (),
        "Classes that a second process of that service serves, by itself.",
        reason="one process for all",
        pattern=NAME,
    )


# --- A process that a scenario starts.


@dataclass(frozen=True)
class Service:
    """`[[service]]`: started in the order of the file; the first that is not shared is what the load asks."""

    name: str = declare("", "How other parts of the scenario refer to it.", reason="each has one", pattern=NAME)
    command: tuple[str, ...] = declare(
        (),
        "Its argument vector. Braces stand for what is known only when it starts: see Placeholders.",
        reason="nothing can be started without one",
        pattern=TEXT,
    )
    files: tuple[str, ...] = declare(
        (),
        "Files and folders, relative to the scenario's own, that are copied into the temporary folder it runs in.",
        reason="a program that is installed needs none",
        pattern=TEXT,
    )
    env: Mapping[str, str] = declare(
        {}, "Added to the environment of the lab. Braces as in `command`.", reason="most need none"
    )
    listen: str = declare(
        "tcp", "What it listens on: a port of 127.0.0.1, or a Unix socket.", reason="usual", choices=("tcp", "unix")
    )
    ready: str = declare(
        "",
        "A path that it must answer below 500 before the load begins; nothing = it accepts connections.",
        reason="enough for a server that listens when it can serve",
        pattern=MAYBE_PATH,
    )
    ready_s: float = declare(
        20.0, "How long it may take until then.", reason="imports on a busy machine", unit="s", low=0.1, high=600.0
    )
    shared: bool = declare(
        False,
        "One process for all contenders, whose CPU and memory are not theirs: an upstream service, a database.",
        reason="what is measured belongs to its contender",
    )


# --- An expectation that a run can check.
#
# bikes.within_deadline_frac >= 0.999 for greenlane
# quote.p99_ms <= 1.25 * gevent for greenlane at 0.9
# probe.p99_ms <= 50 for server by h2load
# all.errors == 0 for greenlane in surge

FORM: Final = "CLASS.FIELD >=|<=|== NUMBER [* CONTENDER] for CONTENDER [at LEVEL] [in PHASE] [by TOOL]"
#: Fields of a row that are numbers.
FIELDS: Final = (
    *("offered_per_s", "done_per_s", "within_deadline_frac", "p50_ms", "p95_ms", "p99_ms", "p999_ms", "samples"),
    *("cpu_ms_per_job", "cpu_utilisation_frac", "pss_mb", "errors", "lost"),
)
RELATIONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
}
_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_FORM: Final = re.compile(
    rf"(?P<endpoint>[A-Za-z0-9][A-Za-z0-9_-]*)\.(?P<field>\w+)\s*(?P<relation>>=|<=|==)\s*"
    rf"(?P<number>[0-9.]+(?:e-?[0-9]+)?)(?:\s*\*\s*(?P<rival>{_NAME}))?\s+for\s+(?P<contender>{_NAME})"
    rf"(?:\s+at\s+(?P<level>x?[0-9.]+))?(?:\s+in\s+(?P<phase>{_NAME}))?(?:\s+by\s+(?P<tool>{_NAME}))?"
)


@dataclass(frozen=True)
class Bound:
    """One of them, read."""

    text: str
    # A class, or "all".
    endpoint: str
    field: str
    relation: str
    number: float
    contender: str
    # The number is a factor of this contender's value; "" = it is the bound itself.
    rival: str
    # The label of a level; "" = each level.
    level: str
    # "" = the whole run.
    phase: str
    # A closed-loop tool; "" = the open loop.
    tool: str


def parsed(text: str) -> Bound | None:
    """What the text says; None = it is not of that form, or names a field that rows have not."""
    found = _FORM.fullmatch(text.strip())
    if found is None or found["field"] not in FIELDS:
        return None
    try:
        number = float(found["number"])
    except ValueError:
        return None
    part = {name: value or "" for name, value in found.groupdict().items() if name not in ("number", "field")}
    return Bound(text=text, field=found["field"], number=number, **part)


# --- Requests of one kind.


_TOKEN = (r"[A-Z]+", "a method in capitals")


@dataclass(frozen=True)
class RequestClass:
    """`[[class]]`: it becomes a stream of requests that are due at times of their own, whatever the server does."""

    name: str = declare("", "The `endpoint` of its rows.", reason="each has one", pattern=NAME)
    path: str = declare("/", "Path and query.", reason="the simplest", pattern=PATH)
    method: str = declare("GET", "Method.", reason="most are", pattern=_TOKEN)
    headers: Mapping[str, str] = declare({}, "Headers besides Host and Connection.", reason="most need none")
    body: str = declare("", "Body, as UTF-8.", reason="a GET has none")
    lane: str = declare(
        "all", "A word for its rows, such as light and heavy.", reason="no distinction made", pattern=NAME
    )
    arrivals: str = declare(
        "poisson",
        "poisson: independent, as from many users. constant: evenly spaced. burst: `burst_size` at one instant, every "
        "`burst_every_s`. recorded: at the instants of `recorded`.",
        reason="as many independent users send them",
        choices=("poisson", "constant", "burst", "recorded"),
    )
    rate_per_s: float = declare(
        0.0,
        "Requests per second, of poisson and constant arrivals; 0 = by one of the two shares below.",
        reason="one of the three must be said",
        low=0.0,
        high=1e6,
    )
    cpu_share_frac: float = declare(
        0.0,
        "Share of the CPU: the rate is utilisation × share ÷ the CPU of one job as calibrated. Add up to 1.",
        reason="one of the three must be said",
        unit="frac",
        low=0.0,
        high=1.0,
    )
    request_share_frac: float = declare(
        0.0,
        "Share of the requests: all classes together take the utilisation. Add up to 1.",
        reason="one of the three must be said",
        unit="frac",
        low=0.0,
        high=1.0,
    )
    burst_size: int = declare(0, "Requests of one burst.", reason="only bursts have it", low=0, high=100_000)
    burst_every_s: float = declare(
        0.0, "Between bursts; 0 = one burst, at the start.", reason="one", unit="s", low=0.0, high=3_600.0
    )
    recorded: str = declare(
        "",
        "A file with arrivals, relative to the scenario; they begin with its first. A recording (.glr), a table "
        "(.parquet, .csv), an access log of nginx or Apache, HAR, JSON of k6 or `stats_history.csv` of locust: "
        "[which forms are read](lab.md#replay-what-was-recorded).",
        reason="only replay",
    )
    recorded_route: str = declare(
        "",
        "The recording's route, or the value of the table's column `endpoint`, or, in another program's log, "
        "`GET /path`, `/path` or a URL, where `*` stands for anything; nothing = all there are.",
        reason="only replay",
    )
    recorded_column: str = declare(
        "scheduled_ns", "The table's column.", reason="that of the lab's own samples", pattern=TEXT
    )
    recorded_format: str = declare(
        "", "Of an access log, nginx' `log_format` or Apache's `LogFormat`; nothing = common or combined.",
        reason="what servers write unless told otherwise",
    )  # fmt: skip
    recorded_unit: str = declare(
        "ns", "What 1 means there, unless it has timestamps.", reason="that of the lab's own samples",
        choices=("ns", "us", "ms", "s"),
    )  # fmt: skip
    deadline_ms: float = declare(
        0.0, "An answer later than this is worthless; 0 = none.", reason="not every request has one", unit="ms",
        low=0.0, high=3.6e6,
    )  # fmt: skip
    timeout_s: float = declare(
        10.0,
        "Given up then, counted from the scheduled send, and counted as lost.",
        reason="longer than people wait",
        unit="s",
        low=0.01,
        high=3_600.0,
    )
    connections: str = declare(
        "new",
        "new: one for each request. keep-alive: used again.",
        reason="no request meets what another left behind",
        choices=("new", "keep-alive"),
    )
    most_connections: int = declare(
        0,
        "Limit of kept connections; further requests wait for one, and that wait counts. 0 = no limit.",
        reason="a wait for a connection is a choice of the client",
        low=0,
        high=100_000,
    )
    work_mean_ms: float = declare(
        0.0, "Mean of the lognormal amount of work that each request asks for; 0 = none.", reason="fixed work",
        unit="ms", low=0.0, high=60_000.0,
    )  # fmt: skip
    work_cv: float = declare(
        0.0, "Its standard deviation ÷ mean; 0 = always the mean.", reason="no spread unless asked for",
        low=0.0, high=10.0,
    )  # fmt: skip
    work_parameter: str = declare("ms", "The query's name for it.", reason="short", pattern=NAME)
    about_ms: float = declare(
        5.0,
        "About what CPU one job takes: paces its calibration, decides nothing else.",
        reason="arbitrary: a small endpoint",
        unit="ms",
        low=0.01,
        high=60_000.0,
    )
    same_work_as: str = declare(
        "", "A class whose calibration serves for this one too.", reason="each is measured", pattern=MAYBE_NAME
    )
