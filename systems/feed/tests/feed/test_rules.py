"""Business rules: boosts move up by a known factor, variety holds where it can, nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed.record import (
    DTYPE,
    FIELDS,
    RECORD_BYTES,
    VERSION_BYTES,
    Item,
    OlderItem,
    fitted,
    from_json,
    pack,
    records_of,
    to_json,
    unpack,
    word_code,
)
from feed.service import rules
from feed.service.job import Job
from feed.service.rules import MOST_OF_CATEGORY, MOST_OF_SELLER, VARIED, WINDOW, Ranked, arranged
from feed.site import Addresses
from feed.user import MODELS, User
from feed.variants.ranking import Given, ranking
from feed.world.catalogue import CODES, WORDS
from feed.world.lessons import candidates_of
from feed.world.world import World

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


# --- An item is the same in every layout, and any version of a record can be read.


NEWER = [field.name for field in FIELDS if field.since > 1]


@pytest.fixture(scope="module")
def items(world: World) -> list[Item]:
    return [world.catalogue.item(number) for number in range(400)]


def test_an_item_has_fifty_fields_in_about_a_kilobyte_of_json(items: list[Item]) -> None:
    assert len(FIELDS) == 50
    assert 900 < sum(len(to_json(item)) for item in items) / len(items) < 1_100


def test_json_gives_back_what_it_was_made_of(items: list[Item]) -> None:
    assert [from_json(to_json(item)) for item in items] == items


def test_a_packed_record_gives_back_all_but_the_letters_of_the_title(items: list[Item]) -> None:
    for item in items:
        assert unpack(pack(item)) == item | {"title": [word_code(word) for word in item["title"].split()]}


def test_every_layout_holds_nulls(items: list[Item]) -> None:
    nullable = {field.name for field in FIELDS if field.nullable}
    assert {name for item in items for name, value in item.items() if value is None} == nullable


def test_what_the_world_draws_is_what_pack_makes_of_it(world: World, items: list[Item]) -> None:
    assert [pack(item) for item in items] == [record.tobytes() for record in world.catalogue.records[:400]]


def test_an_older_record_reads_as_one_whose_newer_fields_are_null(items: list[Item]) -> None:
    older = items[0] | dict.fromkeys(NEWER)
    assert fitted(pack(items[0], version=1)) == pack(older)
    assert from_json(to_json(items[0], version=1)) == older
    assert isinstance(from_json(to_json(items[0], version=1)), OlderItem)


def test_an_item_whose_newer_fields_are_null_is_not_an_old_one(items: list[Item]) -> None:
    item = items[0] | dict.fromkeys(NEWER)
    assert not isinstance(from_json(to_json(item)), OlderItem)


def test_a_newer_record_is_read_as_far_as_it_is_known(items: list[Item]) -> None:
    newer = bytes((3, 0)) + pack(items[0])[2:] + b"unknown"
    assert fitted(newer) == pack(items[0])


@pytest.mark.parametrize("broken", [b"", b"\x02", b"\x00" * RECORD_BYTES, b"\x01" * RECORD_BYTES, b"\x02" * 100])
def test_what_is_no_record_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match="reading a record: version="):
        fitted(broken)


def test_a_field_that_may_not_be_null_is_named(items: list[Item]) -> None:
    with pytest.raises(ValueError, match="packing an item: category=None"):
        pack(items[0] | {"category": None})


def test_columns_lie_where_the_record_says() -> None:
    assert DTYPE.itemsize == RECORD_BYTES == VERSION_BYTES[2]
    assert records_of(bytes(2 * RECORD_BYTES)).shape == (2,)


def test_no_two_words_share_a_code() -> None:
    assert len(set(CODES)) == len(WORDS)


def test_fractions_survive_as_the_doubles_that_json_spells(items: list[Item]) -> None:
    for item in items[:50]:
        again = json.loads(to_json(item))
        assert (again["latitude"], again["quality"]) == (unpack(pack(item))["latitude"], item["quality"])


# --- Every way of choosing candidates gives the same ids, and survives answers that make no sense.


Chosen = Callable[[Mapping[str, bytes], User], tuple[list[int], list[str]]]


@pytest.fixture(params=["inline", "greenlane"])
def choose(request: pytest.FixtureRequest) -> Chosen:
    made = ranking(request.param, Given(Addresses([], 0, {}, "", 0), 1))

    async def chosen(bodies: Mapping[str, bytes], user: User) -> tuple[list[int], list[str]]:
        job = Job(user.user_id, 0, 1.0)
        return made.candidates(job, bodies, user), [problem.reason for problem in job.problems]

    return lambda bodies, user: asyncio.run(chosen(bodies, user))


def bodies_of(world: World, user: User) -> dict[str, bytes]:
    answers = {model: world.first_level.answer(model, user) for model in MODELS}
    return {model: json.dumps({"ids": ids, "scores": scores}).encode() for model, (ids, scores) in answers.items()}


@pytest.mark.parametrize("user_id", range(1, 8))
def test_all_models_answers_give_the_worlds_candidates(choose: Chosen, world: World, user_id: int) -> None:
    user = world.people.user(user_id)
    assert choose(bodies_of(world, user), user) == (candidates_of(world, user), [])


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"ids": [1]}', b'{"ids": 3, "scores": 4}', b'{"ids": ["1"], "scores": [1]}']
)
def test_an_answer_that_makes_no_sense_is_left_out_and_named(choose: Chosen, world: World, body: bytes) -> None:
    user = world.people.user(2)
    bodies = bodies_of(world, user)
    without, _ = choose({model: given for model, given in bodies.items() if model != "taste"}, user)
    assert choose(bodies | {"taste": body}, user) == (without, ["taste: its answer is unreadable"])


def test_without_answers_there_is_nothing(choose: Chosen, world: World) -> None:
    assert choose({}, world.people.user(2)) == ([], [])
