"""The features in Go are those in Rust, bit for bit; and the Go runtime stays out of processes that fork."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from random import Random

import numpy as np
import pytest

from feed import go_features, native
from feed.features import features_of
from feed.model import NOW_S, fingerprint, items_of, native_fingerprint, probes
from feed.native import GO_LIBRARY, build
from feed.record import CITIES, FIELDS, TOPICS, Item, pack, to_json, unpack, word_code
from feed.user import MOST_WORDS, User
from feed.world.catalogue import BY_CODE
from feed.world.lessons import lessons
from feed.world.world import made

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")]

SOMEBODY = User(1, CITIES[4], 55.75, 37.62, 1500.0, 0.25, {"cars": 0.5}, [3] * TOPICS, ["sedan", "лада", ""], [7, 0])


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessPoolExecutor]:
    build(GO_LIBRARY)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def test_a_process_that_was_not_spawned_does_not_load_go() -> None:
    with pytest.raises(go_features.NotAWorker, match=r"expected a worker started by spawn\nhint: ProcessPoolExecutor"):
        go_features.features(go_features.joined([]), SOMEBODY.packed(), NOW_S)


def test_go_and_rust_have_one_fingerprint(worker: ProcessPoolExecutor) -> None:
    words = {word_code(word): word for word in ("", *(f"word{number}" for number in range(2 * MOST_WORDS)))}

    def code(records: list[bytes], user: User, now_s: int) -> np.ndarray:
        values = go_features.joined([_text(record, words) for record in records])
        return worker.submit(go_features.features, values, user.packed(), now_s).result().columns

    assert len(probes()) == 2
    assert fingerprint(code) == native_fingerprint()


def test_every_lesson_has_rust_s_features(worker: ProcessPoolExecutor) -> None:
    for lesson in lessons(made(seed=5, items=4_000), range(1, 9), 400):
        records = [record.tobytes() for record in lesson.records]
        _same(worker, [_text(record, BY_CODE) for record in records], records, lesson.user)


def test_json_has_rust_s_features(worker: ProcessPoolExecutor) -> None:
    items = [_titled(item, number) for number, item in enumerate(items_of(Random(6), 200))]
    _same(worker, [to_json(item) for item in items], [pack(item) for item in items], SOMEBODY)
    older = [pack(item, 1) for item in items[:20]]
    _same(worker, [to_json(item, version=1) for item in items[:20]], older, SOMEBODY)
    newer = dict.fromkeys(field.name for field in FIELDS if field.since > 1)
    unknown = [item | newer for item in items[:20]]
    _same(worker, [to_json(item) for item in unknown], [pack(item) for item in unknown], SOMEBODY)
    for lacking in newer:
        partly = [json.dumps({name: item[name] for name in item if name != lacking}).encode() for item in items[:5]]
        assert _of(worker, partly).older.tolist() == [1] * 5


def test_what_is_absent_or_unreadable_is_left_out(worker: ProcessPoolExecutor) -> None:
    items = items_of(Random(7), 40)
    texts: list[bytes | None] = [to_json(item) for item in items]
    records: list[bytes | None] = [pack(item) for item in items]
    texts[3] = records[3] = None
    texts[39] = records[39] = b""
    _same(worker, texts, records, SOMEBODY)
    whole = to_json(items[0])
    broken = [whole[:end] for end in range(0, len(whole), 7)]
    broken += [
        b"{}",
        b"null",
        b"[1]",
        whole + b"x",
        whole.replace(b'"price":', b'"price":-'),
        whole.replace(b'"quality":', b'"quality":nan,"x":'),
    ]
    assert len(_of(worker, broken).places) == 0


def test_json_in_other_dress_has_rust_s_features(worker: ProcessPoolExecutor) -> None:
    item = items_of(Random(9), 1)[0] | {"latitude": 0.0}
    spelt = json.dumps(
        {"new": [1, {"a": "]}"}, "\\"], **item, "latitude": 0, "more": "x", "n": -1.5e3, "t": True}, indent=1
    )
    _same(worker, [spelt.encode()], [pack(item)], SOMEBODY)
    for text, quality in (("0.1234567e0", 0.1234567), ("0.1234567e-1", 0.01234567)):
        written = spelt.replace('"quality": ', f'"quality": {text}, "quality_": ')
        (found,) = _of(worker, [written.encode()]).columns
        wanted = np.array(features_of([item | {"quality": quality}], SOMEBODY, NOW_S)[0], "f4")
        assert np.array_equal(found, wanted, equal_nan=True)
    assert len(_of(worker, []).places) == 0


def _text(record: bytes, words: Mapping[int, str]) -> bytes:
    """The item as JSON; `words`: of the codes in its title."""
    item = unpack(record)
    return to_json(item | {"title": " ".join(words[code] for code in item["title"])}, record[0])


def _titled(item: Item, number: int) -> Item:
    return item | {"title": ["лада седан", "", " sedan  x", '\x00𝒳 " \\ sedan', "a b c d e f g h sedan"][number % 5]}


def _of(worker: ProcessPoolExecutor, values: Sequence[bytes | None], user: User = SOMEBODY) -> go_features.Matrix:
    return worker.submit(go_features.features, go_features.joined(list(values)), user.packed(), NOW_S).result()


def _same(
    worker: ProcessPoolExecutor, texts: Sequence[bytes | None], records: Sequence[bytes | None], user: User
) -> None:
    found, matrix = _of(worker, texts, user), native.features(list(records), user.packed(), NOW_S)
    wanted = np.asarray(matrix.columns)
    assert found.columns.shape == wanted.shape and found.columns.flags.f_contiguous
    assert np.array_equal(found.columns, wanted, equal_nan=True)
    assert found.places.tolist() == np.asarray(matrix.places).tolist()
    # In the order of the rows: all scores are equal, so a ranking by falling places gives them back.
    rows = matrix.ranked(-np.arange(len(wanted), dtype=float))
    for name in ("ids", "sellers", "categories", "boosts"):
        assert getattr(found, name).tolist() == np.asarray(getattr(rows, name)).tolist()
    assert int(found.older.sum()) == rows.older
