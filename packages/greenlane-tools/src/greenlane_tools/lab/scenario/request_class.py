"""Requests of one kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from greenlane.settings.setting import declare
from greenlane_tools.lab.scenario.parts import MAYBE_NAME, NAME, PATH, TEXT

__all__ = ["RequestClass"]

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
