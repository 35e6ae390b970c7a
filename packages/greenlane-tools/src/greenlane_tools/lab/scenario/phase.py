"""A stretch of the load."""

from __future__ import annotations

from dataclasses import dataclass

from greenlane.settings.setting import declare
from greenlane_tools.lab.scenario.patterns import NAME

__all__ = ["Phase"]


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
