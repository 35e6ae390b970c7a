"""Business rules over a ranked list: paid boosts move up, and no seller or category fills the screen.

Deterministic: the same ranking gives the same feed, no matter which variant made it. What the user has seen enough
of was left out before (user.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final

# An item on place p with a boost of level b goes to about p / (1 + BOOST * b).
BOOST: Final = 2
# Rules of variety hold on this many first places; who scrolls further gets the ranking as it is.
VARIED: Final = 300
# Of WINDOW places in a row at most this many are of one seller, of one category.
WINDOW: Final = 10
MOST_OF_SELLER: Final = 2
MOST_OF_CATEGORY: Final = 5
# This many are set aside at most, while better fitting ones are looked for.
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

    def arranged(self) -> list[int]:
        """The feed that the rules make of it."""
        return arranged(self)


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
    screen = _Screen(ranked)
    coming = iter(order)
    shown: list[int] = []
    while len(shown) < min(VARIED, len(order)):
        place = screen.fitting()
        while place is None and screen.aside < _ASIDE:
            one = next(coming, None)
            if one is None:
                break
            if screen.fits(one):
                place = one
            else:
                screen.set_aside(one)
        # Nothing fits: a repetition is better than a hole.
        place = screen.longest_aside() if place is None else place
        screen.show(place)
        shown.append(place)
    return [*shown, *screen.left(), *coming]


class _Screen:
    """What the last WINDOW - 1 places show, and what was set aside for it.

    An item that does not fit can only fit once something of its seller or category has left the window, so what is
    aside lies by category: whole categories are passed over while they are full.
    """

    def __init__(self, ranked: Ranked) -> None:
        self._sellers = ranked.sellers
        self._categories = ranked.categories
        self._recent: deque[int] = deque()
        self._of_seller: Counter[int] = Counter()
        self._of_category: Counter[object] = Counter()
        # Places by category, each with its turn: the order in which they were set aside.
        self._aside: defaultdict[object, dict[int, int]] = defaultdict(dict)
        self._turn = 0
        self.aside = 0

    def fits(self, place: int) -> bool:
        """It breaks no limit on the next place."""
        seller = self._sellers[place]
        return not seller or (
            self._of_seller[seller] < MOST_OF_SELLER and self._of_category[self._categories[place]] < MOST_OF_CATEGORY
        )

    def set_aside(self, place: int) -> None:
        """For later."""
        self._aside[self._categories[place]][place] = self._turn
        self._turn += 1
        self.aside += 1

    def fitting(self) -> int | None:
        """Of what is aside and fits now the one that was set aside first; it is aside no longer."""
        if not self.aside:
            return None
        first = None
        for category, places in self._aside.items():
            if places and self._of_category[category] < MOST_OF_CATEGORY:
                place = next((one for one in places if self._of_seller[self._sellers[one]] < MOST_OF_SELLER), None)
                if place is not None and (first is None or places[place] < first[0]):
                    first = places[place], category, place
        return None if first is None else self._taken(first[1], first[2])

    def longest_aside(self) -> int:
        """What was set aside first, whether it fits or not; it is aside no longer."""
        firsts = ((next(iter(places.items())), category) for category, places in self._aside.items() if places)
        (place, _), category = min(firsts, key=lambda first: first[0][1])
        return self._taken(category, place)

    def left(self) -> list[int]:
        """What is still aside, first what was set aside first."""
        turns = sorted((turn, place) for places in self._aside.values() for place, turn in places.items())
        return [place for _, place in turns]

    def show(self, place: int) -> None:
        """It is on the next place; what is WINDOW places before the one after it counts no longer."""
        self._recent.append(place)
        self._of_seller[self._sellers[place]] += 1
        self._of_category[self._categories[place]] += 1
        if len(self._recent) == WINDOW:
            gone = self._recent.popleft()
            self._of_seller[self._sellers[gone]] -= 1
            self._of_category[self._categories[gone]] -= 1

    def _taken(self, category: object, place: int) -> int:
        del self._aside[category][place]
        self.aside -= 1
        return place
