"""The evaluator gives CatBoost's scores, the ranking is their order, and the rules in Rust are those in Python."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed import native
from feed.features import FEATURE_COUNT, features_of
from feed.model import NOW_S, ModelFiles, items_of, load_catboost
from feed.record import CATEGORIES, CITIES, FIELDS, TOPICS, pack, unpack
from feed.service.rules import Ranked, arranged
from feed.stores.items import BUCKETS
from feed.train import train
from feed.user import MODELS, MOST, MOST_ACTIVE, User, chosen
from feed.world.lessons import lessons
from feed.world.world import World, made
from tests.examples import examples

TOLERANCE = 1e-5


@pytest.fixture(scope="session")
def world() -> World:
    return made(seed=6, items=3_000)


@pytest.fixture(scope="session")
def files(world: World, tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    pytest.importorskip("catboost", reason="CatBoost has no wheel for this CPython")
    folder = ModelFiles(tmp_path_factory.mktemp("model"))
    train(world, folder, trees=300, users=range(1, 31))
    return folder


@pytest.fixture(scope="session")
def forest(files: ModelFiles) -> native.Forest:
    return native.Forest(files.json.read_bytes())


@pytest.fixture(scope="session")
def catboost(files: ModelFiles) -> Any:
    return load_catboost(files)


def both(forest: native.Forest, columns: native.Array) -> np.ndarray:
    """Scores of the evaluator; with and without AVX2 they are the same bits."""
    scores = np.asarray(forest.predict(columns))
    assert np.array_equal(scores, np.asarray(forest.predict_plain(columns)))
    return scores


@pytest.mark.slow
def test_every_record_has_catboost_s_score(world: World, forest: native.Forest, catboost: Any) -> None:
    records = world.catalogue.records
    for number in (1, 2, 3):
        matrix = native.features(records.tobytes(), world.people.user(number).packed(), NOW_S)
        wanted = catboost.predict(np.asarray(matrix.columns), thread_count=1)
        assert np.abs(both(forest, matrix.columns) - wanted).max() < min(TOLERANCE, 1.01 * forest.error_bound + 1e-12)


@pytest.mark.slow
def test_values_at_borders_extremes_and_nan_have_catboost_s_score(
    files: ModelFiles, forest: native.Forest, catboost: Any
) -> None:
    splits = json.loads(files.json.read_bytes())["features_info"]["float_features"]
    rng = np.random.default_rng(1)
    rows = np.empty((2_000, FEATURE_COUNT), np.float32)
    for feature, column in enumerate(splits):
        borders = np.array(column["borders"] or [0.0], np.float32)
        with np.errstate(over="ignore"):
            near = np.concatenate([borders, *(np.nextafter(borders, np.float32(way)) for way in (-np.inf, np.inf))])
        extreme = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38, -3.4e38, 1e-45], np.float32)
        # CatBoost refuses NaN in a column that had none in training; there is none in serving either, see features.py.
        extreme = extreme if column["has_nans"] else extreme[1:]
        rows[:, feature] = rng.choice(np.concatenate([near, extreme]), len(rows))
    columns = native.Array.of(np.asfortranarray(rows))
    wanted = catboost.predict(np.asfortranarray(rows), thread_count=1)
    assert np.abs(both(forest, columns) - wanted).max() < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"depth": 1}, {"depth": 3, "iterations": 700}, {"boosting_type": "Ordered", "iterations": 20}]
)
def test_models_of_other_shapes_have_catboost_s_score(options: dict[str, Any], tmp_path: Path) -> None:
    library = pytest.importorskip("catboost", reason="CatBoost has no wheel for this CPython")
    rng = np.random.default_rng(2)
    rows = np.asfortranarray(rng.normal(size=(500, 5)).astype("f4"))
    fixed: dict[str, Any] = {
        "iterations": 50,
        "depth": 6,
        "verbose": False,
        "allow_writing_files": False,
        "thread_count": 1,
    }
    model = library.CatBoost(fixed | options)
    model.fit(library.Pool(rows, rows[:, 0] * rows[:, 1]))
    model.save_model(str(tmp_path / "model.json"), format="json")
    forest = native.Forest((tmp_path / "model.json").read_bytes())
    assert np.abs(both(forest, native.Array.of(rows)) - model.predict(rows)).max() < TOLERANCE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda model: model["scale_and_bias"].__setitem__(1, [0.0, 1.0]), "scale_and_bias=2, expected one bias"),
        (
            lambda model: model["oblivious_trees"][0]["splits"].pop(),
            "leaf values of a tree=64, expected 2 to the power",
        ),
        (
            lambda model: model["oblivious_trees"][0]["splits"][0].update(split_type="OneHotFeature"),
            "split_type=OneHot",
        ),
        (lambda model: model["oblivious_trees"][0]["leaf_values"].__setitem__(0, 1e6), "leaf values=1000000"),
        (lambda model: model["features_info"].update(categorical_features=[{}]), "categorical features=1"),
        (lambda model: model["features_info"]["float_features"][0].update(nan_value_treatment="AsTrue"), "AsTrue"),
        (lambda model: model.pop("oblivious_trees"), "missing field `oblivious_trees`"),
    ],
)
def test_a_model_that_cannot_be_evaluated_well_is_refused(change: Any, said: str, files: ModelFiles) -> None:
    model = json.loads(files.json.read_bytes())
    change(model)
    with pytest.raises(ValueError, match=said):
        native.Forest(json.dumps(model).encode())


@pytest.mark.slow
def test_ranking_is_features_scores_and_a_sort(world: World, forest: native.Forest, catboost: Any) -> None:
    for lesson in lessons(world, range(40, 46), 1_000):
        values = [record.tobytes() for record in lesson.records]
        ranking = native.rank(values, lesson.user.packed(), lesson.now_s, forest)
        scores = both(forest, native.features(values, lesson.user.packed(), lesson.now_s).columns)
        ids = np.array(lesson.ids)
        order = np.lexsort((ids, -scores))
        assert np.asarray(ranking.places).tolist() == order.tolist()
        assert np.asarray(ranking.ids).tolist() == ids[order].tolist()
        assert np.array_equal(np.asarray(ranking.scores), scores[order])
        slow = catboost.predict(features_of(map(unpack, values), lesson.user, lesson.now_s))
        _same_but_for_ties(
            ids[np.lexsort((ids, -slow))], np.asarray(ranking.ids), dict(zip(lesson.ids, slow, strict=True))
        )


def _same_but_for_ties(wanted: np.ndarray, found: np.ndarray, scores: dict[int, float]) -> None:
    assert sorted(wanted.tolist()) == sorted(found.tolist())
    for one, other in zip(wanted.tolist(), found.tolist(), strict=True):
        assert abs(scores[one] - scores[other]) < TOLERANCE


def test_items_of_an_older_version_are_counted_and_unknown_values_are_none(world: World, forest: native.Forest) -> None:
    user = world.people.user(9).packed()
    items = [world.catalogue.item(number) for number in range(500)]
    assert native.rank([pack(item) for item in items], user, NOW_S, forest).older == 0
    older = native.rank([pack(item, 1) for item in items] + [None, b"x"], user, NOW_S, forest)
    assert (len(older), older.older, older.unreadable) == (500, 500, 1)
    # Null is there: no matter how little is known of an item, it is not an old one.
    newer = [field.name for field in FIELDS if field.since > 1]
    unknown = [item | dict.fromkeys(newer) for item in items]
    assert native.rank([pack(item) for item in unknown], user, NOW_S, forest).older == 0


def test_equal_scores_are_ordered_by_item_id(forest: native.Forest) -> None:
    item = items_of(Random(1), 1)[0]
    ids = Random(2).sample(range(2**32 - 1), 200)
    ranking = native.rank([pack(item | {"item_id": one}) for one in ids], SOMEBODY, NOW_S, forest)
    assert np.asarray(ranking.ids).tolist() == sorted(ids)


SOMEBODY = User(1, CITIES[4], 55.75, 37.62, 1500.0, 0.25, {"cars": 0.5}, [3] * TOPICS).packed()

_SHOWN = st.tuples(st.integers(0, 3), st.integers(0, 6), st.integers(0, 4), st.booleans())


def _ranked(shown: list[tuple[int, int, int, bool]], ids: list[int]) -> Iterator[dict[str, Any]]:
    item = items_of(Random(3), 1)[0]
    for item_id, (boost, seller, category, in_force) in zip(ids, shown, strict=True):
        until = NOW_S + (1 if in_force else 0) if boost else None
        yield item | {
            "item_id": item_id, "boost": boost, "boost_until_s": until, "seller_id": seller, "category":
            CATEGORIES[category],
        }  # fmt: skip


@examples(150)
@given(
    shown=st.lists(_SHOWN, max_size=450),
    source=st.integers(0, 1000),
    lacking=st.lists(st.integers(1, 50), max_size=20, unique=True),
)
def test_rules_arrange_as_their_twin(shown: list[Any], source: int, lacking: list[int], forest: native.Forest) -> None:
    ids = Random(source).sample(range(1_000, 2_000), len(shown))
    # All scores are equal: the ranking is by id, so the drawn columns stay as they are by sorting ids.
    items = list(_ranked(shown, sorted(ids)))
    ranking = native.rank([pack(item) for item in items], SOMEBODY, NOW_S, forest)
    places = np.asarray(ranking.places).tolist()
    best = [items[place] for place in places]
    nothing = [0] * len(lacking)
    wanted = arranged(
        Ranked(
            [*(item["item_id"] for item in best), *lacking],
            [*(item["boost"] if (item["boost_until_s"] or 0) > NOW_S else 0 for item in best), *nothing],
            [*(item["seller_id"] for item in best), *nothing],
            [*(item["category"] for item in best), *nothing],
        )
    )
    assert np.asarray(ranking.arranged(lacking)).tolist() == wanted
    assert np.asarray(ranking.sellers).tolist() == [item["seller_id"] for item in best]


@pytest.mark.slow
def test_an_order_by_given_scores_is_that_of_the_ranking(world: World, forest: native.Forest) -> None:
    user = world.people.user(4).packed()
    values: list[bytes | None] = [pack(world.catalogue.item(number)) for number in range(300)]
    values[7], values[9] = None, b"no record"
    wanted = native.rank(values, user, NOW_S, forest)
    matrix = native.features(values, user, NOW_S)
    scores = forest.predict(matrix.columns)
    found = matrix.ranked(scores)
    names = ("ids", "scores", "places", "boosts", "sellers", "categories")
    assert len(matrix) == len(found) == 298 and found.unreadable == 1
    assert all(np.array_equal(np.asarray(getattr(found, name)), np.asarray(getattr(wanted, name))) for name in names)
    rows = np.argsort(np.asarray(wanted.places))
    columns = {name: np.asarray(getattr(wanted, name))[rows] for name in ("sellers", "categories", "boosts")}
    again = native.ranked(matrix.ids, scores, **columns)
    assert np.array_equal(np.asarray(again.arranged()), np.asarray(wanted.arranged()))
    with pytest.raises(ValueError, match="297 scores, expected 298"):
        matrix.ranked(np.zeros(297))
    with pytest.raises(ValueError, match="2 scores, expected 298"):
        native.ranked(matrix.ids, np.zeros(2), **columns)


_NAMED = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10_000)), max_size=40)


@examples(200)
@given(
    answers=st.lists(st.none() | _NAMED, min_size=4, max_size=4),
    seen=st.lists(st.integers(0, 30)),
    active=st.booleans(),
)
def test_native_candidates_are_those_of_the_twin(answers: list[Any], seen: list[int], active: bool) -> None:
    named = {
        model: ([one for one, _ in answer], [score / 10_000 for _, score in answer])
        for model, answer in zip(MODELS, answers, strict=True)
        if answer is not None
    }
    user = User(1, CITIES[0], 0.0, 0.0, 1.0, 0.0, {}, [0] * TOPICS, seen=seen, active=active)
    bodies = [_body(*named[model]) if model in named else None for model in MODELS]
    assert native.candidates(bodies, seen, MOST_ACTIVE if active else MOST) == (chosen(named, user), [])


def test_answers_that_are_none_are_told_and_left_out() -> None:
    bodies = [b"{}", _body([1, 2], [0.5, 0.75]), None, b'{"ids": [1], "scores": []}']
    assert native.candidates(bodies, [], 10) == ([2, 1], [0, 3])
    assert native.candidates(bodies, [2], 10) == ([1], [0, 3])
    assert native.candidates(bodies, [], 1) == ([2], [0, 3])


def _body(ids: list[int], scores: list[float]) -> bytes:
    return json.dumps({"ids": ids, "scores": scores}).encode()


@examples(30)
@given(source=st.integers(0, 1000), pieces=st.integers(1, 5_000), lost=st.sets(st.integers(0, 2)))
def test_fetched_replies_rank_as_the_values_in_them(
    source: int, pieces: int, lost: set[int], forest: native.Forest
) -> None:
    random = Random(source)
    shard_of_bucket = [random.randrange(3) for _ in range(BUCKETS)]
    items = [item | {"item_id": number * 7} for number, item in enumerate(items_of(random, 90))]
    stored = {item["item_id"]: None if random.random() < 0.1 else pack(item) for item in items}
    ids = random.sample(list(stored), len(stored))
    asking = native.Asking(ids, shard_of_bucket, 3)
    replies: list[native.Replies | None] = []
    for shard in range(3):
        answer = b"".join(map(_reply, _mgets(asking.command(shard)), itertools.repeat(stored)))
        replies.append(None if shard in lost else _fed(answer, asking.count(shard), pieces))
    fetched = native.Fetched(asking, replies)
    values = [None if shard_of_bucket[one % BUCKETS] in lost else stored[one] for one in ids]
    found, wanted = (native.rank(given, SOMEBODY, NOW_S, forest) for given in (fetched, values))
    for name in ("ids", "places", "scores"):
        assert np.asarray(getattr(found, name)).tolist() == np.asarray(getattr(wanted, name)).tolist()


def test_replies_that_are_refused_or_not_whole_are_told() -> None:
    with pytest.raises(ConnectionError, match="MOVED 3 127"):
        native.Replies(2).feed(b"-MOVED 3 127.0.0.1:7\r\n")
    some = native.Replies(2)
    assert some.feed(b"*2\r\n$1\r\na\r\n$") is None
    with pytest.raises(ValueError, match="each whole or None"):
        native.Fetched(native.Asking([1, 2], [0] * BUCKETS, 1), [some])
    assert some.feed(b"-1\r\n*1\r\n") == len(b"*1\r\n")
    with pytest.raises(ValueError, match="expected 48 numbers below 1"):
        native.Asking([1], [1] * BUCKETS, 1)


def _mgets(command: bytes) -> Iterator[list[bytes]]:
    """The keys of each MGET in a shard's command."""
    parts = command.split(b"\r\n")
    while parts[0]:
        count = int(parts[0][1:])
        yield parts[4 : 2 * count + 1 : 2]
        del parts[: 2 * count + 1]


def _reply(keys: list[bytes], stored: dict[int, bytes | None]) -> bytes:
    values = [stored[int(key.partition(b"}")[2])] for key in keys]
    assert len({key.partition(b"}")[0] for key in keys}) == 1, "one slot"
    spelt = (b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value) for value in values)
    return b"*%d\r\n" % len(values) + b"".join(spelt)


def _fed(answer: bytes, count: int, pieces: int) -> native.Replies:
    replies = native.Replies(count)
    ends = [replies.feed(answer[at : at + pieces]) for at in range(0, len(answer), pieces)]
    assert all(end is None for end in ends[:-1]) and (not ends or ends[-1] == 0)
    return replies
