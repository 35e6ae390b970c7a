"""Limits that several workers share: who may have how many calls at once, decided inside a store's transaction.

A key's row says for each worker how many calls it wants and how many it has. The sum of what living workers have never
exceeds the limit: a worker gets more only from what is free, and gives up by itself what is over its fair share. A
worker lives as long as its lease in the store. So no call asks the store, only a change of the shares does.

Fair is what water-filling gives (max-min): all workers get the same, but none gets more than it wants. What does not
divide is given in turns of `TURN_S`, so with fewer calls than workers each of them has its time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["TURN_S", "Ask", "Share", "Shares", "fair_shares", "shared_out", "workers_in"]

#: Long beside the quarter of a second in which shares change hands, short beside an order's patience. Arbitrary.
TURN_S: Final = 5.0

#: Of one key: what each worker wants and has.
Shares = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Ask:
    """What one worker wants of a key."""

    key: str
    #: Calls at once of all workers together.
    most: int
    wants: int
    #: What it has and keeps: its calls in progress at least.
    keeps: int


class Share(NamedTuple):
    """What it is given."""

    #: Calls at once that it has now, what it keeps included.
    has: int
    #: Its fair share. Where that is less than it has it is to give up the rest.
    fair: int


def shared_out(
    records: Mapping[str, str], asked: Sequence[Ask], owner: str, left_s: Callable[[str], float], now_s: float
) -> tuple[dict[str, str], list[Share]]:
    """Decide what a worker may have; the text of each key's row, "" for an empty one, and the answers.

    Args:
        records: the texts of the rows; keys without one are missing.
        asked: at most one for each key.
        owner: the worker that asks.
        left_s: of another worker's lease, seconds.
        now_s: seconds since 1970; it decides only whose turn it is.
    """
    written: dict[str, str] = {}
    given: list[Share] = []
    for ask in asked:
        known = _read(records.get(ask.key, ""))
        rows = {name: row for name, row in known.items() if name != owner and left_s(name) > 0}
        wants = {name: wanted for name, (wanted, _) in rows.items()} | {owner: ask.wants}
        fair = fair_shares(wants, ask.most, int(now_s / TURN_S))[owner]
        free = ask.most - sum(has for _, has in rows.values()) - ask.keeps
        has = ask.keeps + max(0, min(fair - ask.keeps, free))
        given.append(Share(has, fair))
        if ask.wants or has:
            rows[owner] = (ask.wants, has)
        written[ask.key] = json.dumps(rows, separators=(",", ":"), sort_keys=True) if rows else ""
    return written, given


def fair_shares(wants: Mapping[str, int], most: int, turn: int) -> dict[str, int]:
    """Divide `most`: all get the same, none more than it wants; what does not divide goes round with `turn`."""
    shares = dict.fromkeys(wants, 0)
    left, hungry = most, sorted(name for name, wanted in wants.items() if wanted > 0)
    while left > 0 and hungry:
        each = left // len(hungry)
        if each == 0:
            first = turn % len(hungry)
            for name in (hungry[first:] + hungry[:first])[:left]:
                shares[name] += 1
            break
        for name in hungry:
            more = min(each, wants[name] - shares[name])
            shares[name] += more
            left -= more
        hungry = [name for name in hungry if shares[name] < wants[name]]
    return shares


def workers_in(records: Iterable[str]) -> set[str]:
    """Give the workers that stand in these rows."""
    return {name for text in records for name in _read(text)}


def _read(text: str) -> dict[str, tuple[int, int]]:
    """What a row says; one that somebody else has written over says nothing."""
    try:
        return {str(name): (int(wants), int(has)) for name, (wants, has) in json.loads(text or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}
