"""`greenlane serve`: where it listens, its workers, what each gets at once, its versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from greenlane.setting import declare
from greenlane.settings.declared.patterns import ADDRESS, MAYBE_HEADER, SOME_DIRECTORY

__all__ = ["ServeSettings"]


@dataclass(frozen=True)
class ServeSettings:
    """The tree of processes behind one front."""

    bind: tuple[str, ...] = declare(
        ("127.0.0.1:8000",), "Where `greenlane serve` listens: host:port, [IPv6]:port, or the path of a Unix socket.",
        pattern=ADDRESS, reason="Reachable from this machine only, until somebody wants more.",
    )  # fmt: skip
    workers: int = declare(
        0, "Worker processes of `greenlane serve`, all lanes together; 0 = one per usable core, but at least 2.",
        low=0, high=1024, reason="Python computes on one core a process; two, so that one can be busy.",
    )  # fmt: skip
    at_once: int = declare(
        0, "Requests that the front of `greenlane serve` gives a worker at once; 0 = set live, by measurement.",
        low=0, high=4096, reason="It follows from what the requests do, and changes with them.",
    )  # fmt: skip
    at_once_min: int = declare(
        1, "Least that `at_once` is set to by measurement.",
        low=1, high=4096, reason="A worker that only computes serves one request sooner than two.",
    )  # fmt: skip
    at_once_max: int = declare(
        64, "Most that `at_once` is set to by measurement; under WSGI also at most `threads`, and at most `limit`.",
        low=1, high=4096, reason="As many as `threads`: beyond it a request would wait in its worker.",
    )  # fmt: skip
    auto_lane: bool = declare(
        False, "`greenlane serve` sends what no lane matches to lane `apart` while its route computes for long.",
        reason="Such a lane keeps the places of a worker from the heavy routes: somebody should want that.",
    )  # fmt: skip
    auto_last: bool = declare(
        True, "Without lanes of its own, `greenlane serve` lets those wait for a worker last whose route computes for "
        "long (lane `apart`, with no worker's places kept from it); where `at_once` is set by measurement.",
        reason="When more comes than can be served, who computes little waits behind none who computes much.",
    )  # fmt: skip
    auto_lane_ms: float = declare(
        20.0, "Mean CPU of a request over which a route goes to lane `apart`; under half of it, back.",
        unit="ms", low=1, high=60_000, reason="A tenth of what people notice; light routes take some milliseconds.",
    )  # fmt: skip
    queue_s: float = declare(
        30.0, "Longest wait for a worker under `greenlane serve`, over which a request is refused with 503.",
        unit="s", low=0.001, high=3600, reason="Most clients have gone by then; a lane's deadline says it better.",
    )  # fmt: skip
    stop_s: float = declare(
        30.0, "Time that `greenlane serve` gives requests in progress when it ends or replaces a worker.",
        unit="s", low=0, high=86_400, reason="gunicorn's graceful_timeout.",
    )  # fmt: skip
    versions: Mapping[str, str] = declare(
        {}, "Other versions of the application under `greenlane serve`: NAME = the directory that it is loaded from.",
        pattern=SOME_DIRECTORY, reason="`greenlane divert route` sends them requests; without it they get none.",
    )  # fmt: skip
    version_workers: int = declare(
        0, "Workers of each of `versions`; 0 = as many as the application itself shares among its lanes.",
        low=0, high=1024, reason="Whoever is to take over everything at once needs as many.",
    )  # fmt: skip
    version_header: str = declare(
        "", "Request header whose value decides which requests are diverted; '' = chance, one by one.",
        pattern=MAYBE_HEADER, reason="Only the service knows what names its clients.",
    )  # fmt: skip
