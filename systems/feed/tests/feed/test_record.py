"""An item is the same in every layout, and any version of a record can be read."""

from __future__ import annotations

import json

import pytest

from feed.columns import DTYPE, records_of
from feed.record import (
    FIELDS,
    RECORD_BYTES,
    VERSION_BYTES,
    Item,
    OlderItem,
    fitted,
    from_json,
    pack,
    to_json,
    unpack,
    word_code,
)
from feed.world.catalogue import CODES, WORDS
from feed.world.world import World

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
