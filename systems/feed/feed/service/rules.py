"""Business rules over a ranked list: paid boosts move up, and no seller or category fills the screen.

Deterministic: the same ranking gives the same feed, whoever made it. What the user has seen enough of was left out before
(candidates.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final

# An item on place p with a boost of level b goes to about p / (1 + BOOST * b).
BOOST: Final = 2
# Rules of variety hold on so many first places; who scrolls further gets the ranking as it is.
VARIED: Final = 300
# Of WINDOW places in a row at most so many are of one seller, of one category.
WINDOW: Final = 10
MOST_OF_SELLER: Final = 2
MOST_OF_CATEGORY: Final = 5
# So many are set aside at most, while better fitting ones are looked for.
_ASIDE: Final = 100


@dataclass(frozen=True)
class Ranked:
    """Items best first, with what the rules look at; columns of one length.

    Args:
        ids: the items.
        boosts: paid level that is in force now, 0 to 3.
        sellers: 0 = not known: no rule of variety for it.
        categories: anything that is equal for items of one category.
    """

    ids: Sequence[int]
    boosts: Sequence[int]
    sellers: Sequence[int]
    categories: Sequence[object]


def arranged(ranked: Ranked) -> list[int]:
    """The feed: every id of the ranking once, in the order in which it is shown."""
    return [ranked.ids[place] for place in _varied(ranked, _boosted(ranked))]


def _boosted(ranked: Ranked) -> list[int]:
    """Places of the ranking in the order after boosts; equal ones by item id."""
    boosts, ids = ranked.boosts, ranked.ids
    moved = sorted((place / (1 + BOOST * boost), ids[place], place) for place, boost in enumerate(boosts) if boost)
    stayed = ((float(place), ids[place], place) for place, boost in enumerate(boosts) if not boost)
    return [place for _, _, place in merge(moved, stayed)]


def _varied(ranked: Ranked, order: list[int]) -> list[int]:
    """The first VARIED places so that the limits hold, as long as there is something that fits."""
    sellers, categories = ranked.sellers, ranked.categories
    shown: list[int] = []
    recent: deque[int] = deque(maxlen=WINDOW - 1)
    aside: list[int] = []
    coming = iter(order)

    def fits(place: int) -> bool:
        if not sellers[place]:
            return True
        of_seller = sum(sellers[one] == sellers[place] for one in recent)
        return of_seller < MOST_OF_SELLER and sum(categories[one] == categories[place] for one in recent) < MOST_OF_CATEGORY

    while len(shown) < min(VARIED, len(order)):
        place = next((one for one in aside if fits(one)), None)
        if place is not None:
            aside.remove(place)
        while place is None and len(aside) < _ASIDE:
            one = next(coming, None)
            if one is None:
                break
            if fits(one):
                place = one
            else:
                aside.append(one)
        if place is None:
            place = aside.pop(0)
        shown.append(place)
        recent.append(place)
    return [*shown, *aside, *coming]
