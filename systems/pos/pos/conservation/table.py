"""The table of faults, and the rows of `--json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .cell import Outcome
from .faults import FAULTS

#: Heading, and how it is written; a zero where nothing went wrong is a dot, so that what did stands out.
_COLUMNS: Final = (
    "done", "dead", "waiting", "lost", "two_states", "effects_doubled", "calls_repeated", "deceived",
)  # fmt: skip

#: What the verdict `limit` is about.
LIMIT: Final = (
    "Celery's transport takes an order out of Redis and writes down who has it with a later command; one between the "
    "two is lost when the worker or its connection ends"
)


def rows(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row per contender and fault."""
    return [
        {
            "contender": one.contender,
            "fault": one.fault,
            **vars(one.balance),
            "verdict": one.verdict,
            "recovered_s": round(one.recovered_s, 2),
            "standstill_s": round(one.standstill_s, 2),
            "rest_s": round(one.rest_s, 2),
            "end_s": round(one.end_s, 2),
            "stuck": one.stuck,
            "restarts": one.restarts,
            "exit_codes": list(one.exit_codes),
            "published_again": one.published_again,
            "on_their_way": one.on_their_way,
            "deaths": one.deaths,
        }
        for one in outcomes
    ]


def sentence(outcome: Outcome) -> str:
    """What is not zero, in one line."""
    counts = {name: count for name, count in vars(outcome.balance).items() if count}
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    seconds = {"standstill": outcome.standstill_s, "recovered in": outcome.recovered_s, "rest after": outcome.rest_s}
    took = ", ".join(f"{name} {count:.1f} s" for name, count in seconds.items())
    return f"{outcome.verdict}: {told}; {took}, ended in {outcome.end_s:.1f} s, exit {outcome.exit_codes}"


def table(outcomes: Sequence[Outcome]) -> str:
    """One line per contender and fault, grouped by fault."""
    head = ["fault", "contender", *_COLUMNS, "standstill s", "recovered s", "rest s", ""]
    lines = [head]
    last = ""
    for one in sorted(outcomes, key=lambda one: list(FAULTS).index(one.fault)):
        counts = [str(getattr(one.balance, name) or ".") for name in _COLUMNS]
        lines.append(
            [one.fault if one.fault != last else "", one.contender, *counts,
             f"{one.standstill_s:.1f}", f"{one.recovered_s:.1f}", f"{one.rest_s:.1f}", one.verdict]
        )  # fmt: skip
        last = one.fault
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    padded = ["  ".join(_padded(at, cell, widths[at]) for at, cell in enumerate(line)).rstrip() for line in lines]
    beyond = {f"{one.fault}: {FAULTS[one.fault].beyond}" for one in outcomes if FAULTS[one.fault].beyond}
    beyond |= {f"limit: {LIMIT}" for one in outcomes if one.verdict == "limit"}
    return "\n".join([*padded, *sorted(beyond)])


def _padded(column: int, cell: str, width: int) -> str:
    return cell.ljust(width) if column < 2 else cell.rjust(width)
