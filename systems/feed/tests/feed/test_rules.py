"""Business rules: boosts move up by a known factor, variety holds where it can, nothing is lost."""

from __future__ import annotations

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from feed.service import rules
from feed.service.rules import MOST_OF_CATEGORY, MOST_OF_SELLER, VARIED, WINDOW, Ranked, arranged

ITEM = st.tuples(st.sampled_from([0, 0, 0, 0, 1, 2, 3]), st.integers(0, 12), st.integers(0, 4))


def ranked(items: list[tuple[int, int, int]]) -> Ranked:
    boosts, sellers, categories = ([item[column] for item in items] for column in range(3))
    return Ranked(list(range(100, 100 + len(items))), boosts, sellers, categories)


def plainly_varied(given: Ranked, order: list[int]) -> list[int]:
    """The reference: looks at everything that is aside, each time."""
    shown: list[int] = []
    recent: deque[int] = deque(maxlen=WINDOW - 1)
    aside: list[int] = []
    coming = iter(order)

    def fits(place: int) -> bool:
        sellers = [given.sellers[one] for one in recent]
        categories = [given.categories[one] for one in recent]
        return not given.sellers[place] or (
            sellers.count(given.sellers[place]) < MOST_OF_SELLER
            and categories.count(given.categories[place]) < MOST_OF_CATEGORY
        )

    while len(shown) < min(VARIED, len(order)):
        place = next((one for one in aside if fits(one)), None)
        if place is not None:
            aside.remove(place)
        while place is None and len(aside) < rules._ASIDE:
            one = next(coming, None)
            if one is None:
                break
            if fits(one):
                place = one
            else:
                aside.append(one)
        place = aside.pop(0) if place is None else place
        shown.append(place)
        recent.append(place)
    return [*shown, *aside, *coming]


@given(st.lists(ITEM, max_size=400))
def test_variety_is_what_the_plain_search_finds(items: list[tuple[int, int, int]]) -> None:
    order = list(range(len(items)))
    assert rules._varied(ranked(items), order) == plainly_varied(ranked(items), order)


@given(st.lists(ITEM, max_size=400))
def test_every_item_is_shown_once(items: list[tuple[int, int, int]]) -> None:
    assert sorted(arranged(ranked(items))) == list(range(100, 100 + len(items)))


def test_without_boosts_and_repetitions_the_ranking_is_the_feed() -> None:
    items = [(0, seller + 1, seller % 7) for seller in range(500)]
    assert arranged(ranked(items)) == list(range(100, 600))


def test_a_boost_of_level_1_takes_two_thirds_of_the_places_before_it() -> None:
    items = [(0, seller + 1, seller % 7) for seller in range(90)]
    items[60] = (1, 61, 60 % 7)
    # Place 20 is the unboosted item 20's too: the smaller id goes first.
    assert arranged(ranked(items)).index(160) == 21


def test_a_higher_level_goes_further_up() -> None:
    places = []
    for level in range(4):
        items = [(0, seller + 1, seller % 7) for seller in range(90)]
        items[70] = (level, 71, 0)
        places.append(arranged(ranked(items)).index(170))
    assert places == sorted(places, reverse=True)
    assert len(set(places)) == 4


def test_no_window_shows_more_of_a_seller_or_category_than_allowed_when_there_is_a_choice() -> None:
    items = [(0, 1 + place % 40, place % 5) for place in range(1_000)]
    items[:100] = [(0, 1, 0)] * 100
    given = ranked(items)
    shown = arranged(given)[:200]
    for begin in range(len(shown) - WINDOW + 1):
        window = [item_id - 100 for item_id in shown[begin : begin + WINDOW]]
        assert max(Counter(given.sellers[one] for one in window).values()) <= MOST_OF_SELLER
        assert max(Counter(given.categories[one] for one in window).values()) <= MOST_OF_CATEGORY


def test_items_without_a_record_keep_their_order_at_the_end() -> None:
    items = [(0, 1 + place, place % 7) for place in range(20)] + [(0, 0, 0)] * 30
    assert arranged(ranked(items)) == list(range(100, 150))
