"""One feature code: the native one gives the plain Python one's numbers, bit for bit, of every form of every record."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from feed import native
from feed.features import FEATURE_COUNT, FEATURES, features_of
from feed.model import NOW_S, items_of, probes
from feed.record import (
    CATEGORIES,
    CITIES,
    FIELDS,
    RECORD_BYTES,
    TOPICS,
    VERSION_BYTES,
    Field,
    Item,
    Kind,
    fitted,
    from_json,
    pack,
    to_json,
    unpack,
)
from feed.user import User
from feed.world.lessons import lessons
from feed.world.world import made
from tests.examples import examples

SOMEBODY = User(1, CITIES[4], 55.75, 37.62, 1500.0, 0.25, {"cars": 0.5}, [3] * TOPICS, ["sedan", "лада", ""], [7, 0])
_LARGEST = {Kind.U8: 0xFE, Kind.U16: 0xFFFE, Kind.U32: 0xFFFF_FFFE, Kind.I32: 2**31 - 1}


def of_python(items: list[Item], user: User, now_s: int = NOW_S) -> np.ndarray:
    return np.array(features_of(items, user, now_s), "f4").reshape(-1, FEATURE_COUNT)


def of_native(values: Any, user: User, now_s: int = NOW_S) -> np.ndarray:
    return np.asarray(native.features(values, user.packed(), now_s).columns)


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(np.isnan(one), np.isnan(other)) and bool(np.all(np.nan_to_num(one) == np.nan_to_num(other)))


def differing(one: np.ndarray, other: np.ndarray) -> list[str]:
    columns = np.any((one != other) & ~(np.isnan(one) & np.isnan(other)), axis=0)
    return [name for name, differs in zip(FEATURES, columns, strict=True) if differs]


def _values(field: Field) -> st.SearchStrategy[Any]:
    match field.kind:
        case Kind.CATEGORY:
            values: st.SearchStrategy[Any] = st.sampled_from(CATEGORIES)
        case Kind.CITY:
            values = st.sampled_from(CITIES)
        case Kind.FLAG:
            values = st.booleans()
        case Kind.TOPICS:
            values = st.lists(st.integers(-127, 127), min_size=TOPICS, max_size=TOPICS)
        case Kind.WORDS:
            values = st.text(st.characters(codec="utf-8"), max_size=60) | st.just("лада седан sedan")
        case _:
            largest = _LARGEST[field.kind]
            least = -largest if field.kind is Kind.I32 else 0
            whole = st.integers(least, largest) | st.sampled_from([least, 0, 1, largest])
            values = whole if field.scale == 1 else whole.map(lambda value: value / field.scale)
    return st.none() | values if field.nullable else values


ITEMS = st.fixed_dictionaries({field.name: _values(field) for field in FIELDS})
_DEGREES = st.floats(-180, 180) | st.sampled_from([0.0, -0.0, 180.0, -180.0, 5e-324])
USERS = st.builds(
    User,
    user_id=st.just(1),
    city=st.sampled_from(CITIES),
    latitude=_DEGREES,
    longitude=_DEGREES,
    mean_price=st.floats(1, 1e30),
    delivery_share=st.floats(0, 1),
    categories=st.dictionaries(st.sampled_from(CATEGORIES), st.floats(0, 1)),
    topics=st.lists(st.integers(-127, 127), min_size=TOPICS, max_size=TOPICS),
    words=st.lists(st.sampled_from(["sedan", "", "лада", " ", "\x00", "𝒳"]), max_size=20),
    sellers=st.lists(st.integers(0, 2**32 - 1), max_size=20),
)


@examples(300)
@given(item=ITEMS, user=USERS, now_s=st.integers(0, 2**33))
@example(item=items_of(Random(1), 1)[0], user=SOMEBODY, now_s=NOW_S)
def test_any_item_has_the_same_features_in_every_form(item: Item, user: User, now_s: int) -> None:
    wanted = of_python([item], user, now_s)
    record = pack(item)
    for found in (
        of_native([record], user, now_s),
        of_native(record, user, now_s),
        of_python([unpack(record)], user, now_s),
        of_python([from_json(to_json(item))], user, now_s),
    ):
        assert same(found, wanted), differing(found, wanted)


@examples(100)
@given(item=ITEMS, user=USERS)
def test_an_older_version_has_the_features_of_an_item_without_the_newer_fields(item: Item, user: User) -> None:
    older = pack(item, version=1)
    lacking = item | {field.name: None for field in FIELDS if field.since > 1}
    wanted = of_python([lacking], user)
    assert same(of_native([older], user), wanted)
    assert same(of_python([from_json(to_json(item, version=1))], user), wanted)


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    record = pack(items_of(Random(2), 1)[0])
    newer = bytes([9]) + record[1:] + b"what comes later"
    assert same(of_native([newer], SOMEBODY), of_native([record], SOMEBODY))
    assert fitted(newer)[1:] == record[1:]


@examples(200)
@given(value=st.binary(max_size=RECORD_BYTES + 20))
def test_bytes_that_are_no_record_have_no_row(value: bytes) -> None:
    try:
        readable = len(fitted(value)) == RECORD_BYTES
    except ValueError:
        readable = False
    matrix = native.features([value], SOMEBODY.packed(), NOW_S)
    assert (len(matrix.ids), matrix.unreadable) == ((1, 0) if readable else (0, 1))


def test_every_lesson_has_the_same_features() -> None:
    world = made(seed=5, items=4_000)
    for lesson in lessons(world, range(1, 13), 400):
        records = [record.tobytes() for record in lesson.records]
        found = of_native(lesson.records.tobytes(), lesson.user, lesson.now_s)
        wanted = of_python([unpack(record) for record in records], lesson.user, lesson.now_s)
        assert same(found, wanted), differing(found, wanted)


def test_what_is_absent_or_unreadable_is_left_out_and_the_rest_is_placed() -> None:
    items = items_of(Random(4), 100)
    values: list[bytes | None] = [pack(item) for item in items]
    values[3] = values[50] = None
    values[7] = b"\x02\x00"
    matrix = native.features(values, SOMEBODY.packed(), NOW_S)
    kept = [place for place in range(100) if place not in (3, 7, 50)]
    assert matrix.unreadable == 1
    assert np.asarray(matrix.places).tolist() == kept
    assert np.asarray(matrix.ids).tolist() == [items[place]["item_id"] for place in kept]
    assert same(np.asarray(matrix.columns), of_python([items[place] for place in kept], SOMEBODY))


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 64, 161])
def test_any_number_of_items_makes_a_column_major_matrix(count: int) -> None:
    items = items_of(Random(count), count)
    columns = of_native([pack(item) for item in items], SOMEBODY)
    assert columns.shape == (count, FEATURE_COUNT) and columns.dtype == np.float32
    assert columns.flags.f_contiguous and not columns.flags.writeable
    assert same(columns, of_python(items, SOMEBODY))


def test_features_need_a_user_and_whole_records() -> None:
    record = VERSION_BYTES[1] * b"\x01"
    with pytest.raises(ValueError, match="reading a user: 3 bytes, expected 4"):
        native.features([], b"abc", NOW_S)
    with pytest.raises(ValueError, match="expected a whole number of 182"):
        native.features(record, SOMEBODY.packed(), NOW_S)
    with pytest.raises(TypeError):
        native.features(["text"], SOMEBODY.packed(), NOW_S)  # type: ignore[list-item]


def test_probes_reach_nulls_extremes_and_both_versions() -> None:
    records = [record for some, _ in probes() for record in some]
    items = [unpack(record) for record in records]
    assert {len(record) for record in records} == set(VERSION_BYTES.values())
    for field in FIELDS:
        if field.nullable:
            assert any(item[field.name] is None for item in items)
            assert any(item[field.name] is not None for item in items)
