"""The made-up world is the same for the same seed, and like a real one where the feed depends on it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from feed.record import CATEGORIES, COUNTERS, WINDOWS
from feed.user import MODELS, MOST, chosen
from feed.world.lessons import candidates_of, grades, lessons, ndcg, utility
from feed.world.world import World, kept, made


def test_a_seed_gives_one_world(world: World) -> None:
    again = made(seed=1, items=len(world.catalogue))
    assert again.catalogue.records.tobytes() == world.catalogue.records.tobytes()
    assert again.people.user(7) == world.people.user(7)
    assert made(seed=2, items=100).catalogue.records.tobytes() != made(seed=1, items=100).catalogue.records.tobytes()


def test_a_kept_world_is_the_one_that_was_made(world: World, tmp_path: Path) -> None:
    for _ in range(2):
        found = kept(tmp_path, seed=1, items=len(world.catalogue))
        assert found.catalogue.records.tobytes() == world.catalogue.records.tobytes()
        assert found.people.user(3) == world.people.user(3)


def test_a_longer_window_counts_at_least_what_a_shorter_one_counts(world: World) -> None:
    records = world.catalogue.records
    for counter in COUNTERS:
        for short, long in pairwise(WINDOWS):
            assert (records[f"{counter}_{short}"] <= records[f"{counter}_{long}"]).all()


def test_nobody_clicks_without_an_impression_or_contacts_without_a_click(world: World) -> None:
    records = world.catalogue.records
    for window in WINDOWS:
        assert (records[f"clicks_{window}"] <= records[f"impressions_{window}"]).all()
        assert (records[f"contacts_{window}"] <= records[f"clicks_{window}"]).all()
        assert (records[f"favourites_{window}"] <= records[f"clicks_{window}"]).all()


def test_popularity_is_zipfs(world: World) -> None:
    shares = np.sort(world.catalogue.popularity)[::-1]
    ranks = np.arange(100, 2_000)
    slope = np.polyfit(np.log(ranks), np.log(shares[ranks]), 1)[0]
    assert -1.05 < slope < -0.9
    impressions = world.catalogue.records["impressions_30d"]
    assert np.corrcoef(world.catalogue.popularity, impressions)[0, 1] > 0.5


def test_users_have_interests_and_some_have_no_history(world: World) -> None:
    users = [world.people.user(number) for number in range(1, 401)]
    new = [user for user in users if not user.categories]
    assert 0 < len(new) < 20
    assert all(user.seen == [] for user in new)
    assert all(0 < sum(user.categories.values()) <= 1 for user in users if user not in new)
    assert {len(user.categories) for user in users} == {0, 1, 2, 3, 4}


def test_models_answer_the_same_every_time_best_first_ties_by_id(world: World) -> None:
    user = world.people.user(2)
    for model in MODELS:
        ids, scores = world.first_level.answer(model, user)
        assert (ids, scores) == world.first_level.answer(model, user)
        assert [*zip(ids, scores, strict=True)] == sorted(
            zip(ids, scores, strict=True), key=lambda one: (-one[1], one[0])
        )
        assert all(0 <= score <= 1 for score in scores)


def test_what_was_seen_is_no_candidate(world: World) -> None:
    user = world.people.user(2)
    assert user.seen
    ids = candidates_of(world, user)
    assert not set(ids) & set(user.seen)
    assert 500 < len(ids) <= MOST
    assert len(set(ids)) == len(ids)


def test_candidates_do_not_depend_on_who_answered_first(world: World) -> None:
    user = world.people.user(2)
    answers = {model: world.first_level.answer(model, user) for model in MODELS}
    assert chosen(answers, user) == chosen(dict(reversed(answers.items())), user)
    assert chosen({}, user) == []


def test_lessons_are_the_same_every_time(world: World) -> None:
    first, again = (next(iter(lessons(world, [5], most=50))) for _ in range(2))
    assert first.ids == again.ids
    assert (first.label == again.label).all()
    assert first.records["item_id"].tolist() == first.ids


def test_ndcg_is_one_for_the_ideal_order_and_less_for_any_worse() -> None:
    assert ndcg([4, 3, 2, 1, 0]) == pytest.approx(1)
    assert ndcg([0, 0, 0]) == 1
    assert ndcg([0, 1, 2, 3, 4]) < ndcg([3, 4, 2, 1, 0]) < 1
    # By hand: gains 0, 3; discounts 1, 1/log2(3).
    assert ndcg([0, 2]) == pytest.approx(1 / np.log2(3))


def test_grades_follow_worth() -> None:
    worth = np.random.default_rng(1).normal(size=1_000)
    found = grades(worth)
    assert (np.diff(found[np.argsort(worth)]) >= 0).all()
    assert [int((found == grade).sum()) for grade in range(5)] == [600, 250, 100, 40, 10]


def test_what_interests_a_user_is_worth_more_to_them(world: World) -> None:
    user = world.people.user(2)
    records = world.catalogue.records
    worth = utility(records, user)
    interest = np.isin(records["category"], [CATEGORIES.index(name) for name in user.categories])
    assert worth[interest].mean() > worth[~interest].mean()
