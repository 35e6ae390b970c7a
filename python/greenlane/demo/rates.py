"""How many requests per second of each endpoint make a given share of one worker's CPU.

    rate of an endpoint = utilisation × its share of the CPU ÷ CPU of one of its jobs

where the CPU of one job is its calibrated work plus what stock gthread was measured to spend around it (parsing,
routing, upstream calls, switches). The same rates go to every contender: one that needs more CPU for a job is busier
at the same load, and that counts against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Endpoint:
    """One endpoint of the service, as the load sees it."""

    name: str
    path: str
    # Lane in every row: "light" endpoints have CPU phases of 1-2 ms, the others have longer ones.
    lane: str
    # An answer later than this is worthless; None = it is only waited for.
    deadline_ms: float | None = None
    # Mean of the drawn amount of work (`?ms=`), lognormal; 0 = the endpoint's work is fixed.
    work_mean_ms: float = 0.0
    work_cv: float = 0.0


# Lyft's clients drop an offer after 500 ms.
OFFER_DEADLINE_MS: Final = 500.0

ENDPOINTS: Final[Mapping[str, Endpoint]] = {
    one.name: one
    for one in (
        Endpoint("bikes", "/bikes", "light", OFFER_DEADLINE_MS),
        Endpoint("scooters", "/scooters", "light", OFFER_DEADLINE_MS),
        Endpoint("quote", "/quote", "heavy", work_mean_ms=40.0, work_cv=1.0),
        Endpoint("surge", "/surge", "heavy", work_mean_ms=20.0, work_cv=1.0),
        Endpoint("receipt", "/receipt", "heavy"),
        Endpoint("report", "/report", "heavy"),
        Endpoint("search", "/search", "heavy"),
    )
}

# Share of the CPU by endpoint; each mix adds up to 1.
MIXES: Final[Mapping[str, Mapping[str, float]]] = {
    # The demo's: light work is 10 % of the CPU.
    "light10": {
        "bikes": 0.095, "scooters": 0.005, "quote": 0.64, "surge": 0.10,
        "receipt": 0.05, "report": 0.06, "search": 0.05,
    },
    # Twice as much light work: priority for it costs the rest more.
    "light20": {
        "bikes": 0.19, "scooters": 0.01, "quote": 0.56, "surge": 0.09,
        "receipt": 0.05, "report": 0.05, "search": 0.05,
    },
    # Two endpoints only: I/O before the CPU in the heavy one.
    "surge": {"bikes": 0.14, "surge": 0.86},
    # Two endpoints only: the classes of the ideal bound.
    "bikes-quote": {"bikes": 0.10, "quote": 0.90},
}  # fmt: skip


@dataclass(frozen=True)
class JobCost:
    """CPU of one job of an endpoint, in ms."""

    endpoint: str
    # Calibrated: the function's own work, alone on a thread.
    work_ms: float
    # Measured on stock gthread at low load, minus `work_ms`; never below 0.
    overhead_ms: float

    @property
    def cpu_ms(self) -> float:
        """What one job costs in all."""
        return self.work_ms + self.overhead_ms


def rates_per_s(mix: Mapping[str, float], costs: Mapping[str, JobCost], utilisation_frac: float) -> dict[str, float]:
    """Requests per second of each endpoint of a mix, so that together they take `utilisation_frac` of one core."""
    return {name: utilisation_frac * share * 1000 / costs[name].cpu_ms for name, share in mix.items()}


def light_frac(mix: Mapping[str, float]) -> float:
    """The share of the CPU that a mix gives to light endpoints."""
    return sum(share for name, share in mix.items() if ENDPOINTS[name].lane == "light")
