"""What the ranking model learns from: candidates of users, and what those users would have done with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from feed.record import BY_NAME, CATEGORIES, Records
from feed.user import MODELS, User, chosen

from .catalogue import CODES, NOW_S, WORDS
from .world import World

# Spread of what users do around what they like: their clicks do not say everything.
_NOISE = 0.8


@dataclass(frozen=True)
class Lesson:
    """One user's candidates in training.

    Args:
        user: who.
        records: the items' packed records, in the order of `ids`.
        ids: the items.
        now_s: when, Unix time.
        label: (n,) float32: how much the user made of each; higher is better.
    """

    user: User
    records: Records
    ids: list[int]
    now_s: int
    label: NDArray[np.float32]


def candidates_of(world: World, user: User) -> list[int]:
    """What all four models and the filter give for a user, without any server: ids, best first."""
    return chosen({model: world.first_level.answer(model, user) for model in MODELS}, user)


def lessons(world: World, users: Iterable[int], most: int = 300) -> Iterator[Lesson]:
    """A lesson for each of these users with at most `most` of the candidates, drawn evenly; the same every time."""
    for number in users:
        user = world.people.user(number)
        candidates = candidates_of(world, user)
        rng = np.random.Generator(np.random.PCG64([world.seed, 3, number]))
        rows = np.sort(rng.permutation(len(candidates))[:most])
        ids = [candidates[row] for row in rows]
        records = world.records_of(ids)
        label = utility(records, user) + rng.gumbel(0, _NOISE, len(ids))
        yield Lesson(user, records, ids, NOW_S, label.astype(np.float32))


# --- What an item is truly worth to a user: known here, learned by the ranking model, never looked at by the service.

Floats = NDArray[np.float64]

# Grades of relevance: the best 1 % of a user's candidates are 4, the next up to 5 % are 3, up to 15 % 2, up to 40 % 1.
_GRADES: Final = ((0.01, 4), (0.05, 3), (0.15, 2), (0.40, 1))
_KM_PER_DEGREE: Final = 111.2


def utility(records: Records, user: User) -> Floats:
    """Worth of each item to the user, in no unit; differences are what counts."""
    interest = np.array([user.categories.get(name, 0.0) for name in CATEGORIES])[records["category"]]
    words = np.isin(records["title"], [CODES[WORDS.index(word)] for word in user.words]).sum(1)
    age_days = (NOW_S - records["updated_s"].astype(np.float64)) / 86_400
    clicked = np.log((records["clicks_30d"] + 2.0) / (records["impressions_30d"] + 50.0))
    far = np.log1p(_distance_km(records, user) / 10)
    worth: Floats = (
        2.4 * np.sqrt(interest)
        + 1.4 * _likeness(records, user)
        + 1.2 * (_value(records, "quality", 0.5) - 0.5)
        + 0.6 * (_value(records, "photo_quality", 0.3) - 0.5)
        - 0.30 * np.abs(np.log(_value(records, "price", user.mean_price) / user.mean_price))
        - 0.35 * far * np.where(records["has_delivery"], 1 - user.delivery_share, 1)
        + 0.5 * (clicked + 2.8)
        + 0.6 * np.exp(-age_days / 7)
        + 0.7 * np.minimum(words, 2)
        + 0.8 * np.isin(records["seller_id"], user.sellers)
        + 0.25 * (_value(records, "seller_rating", 4.0) - 4.0)
        + 0.5 * (_value(records, "demand", 0.5) - 0.5)
        - 1.5 * _value(records, "fraud_risk", 0.05)
    )
    return worth


def grades(worth: Floats) -> NDArray[np.int64]:
    """Relevance 0 to 4 of each of one user's candidates, from their true worth."""
    order = np.argsort(-worth, kind="stable")
    found = np.zeros(len(worth), np.int64)
    for share, grade in reversed(_GRADES):
        found[order[: max(1, round(share * len(worth)))]] = grade
    return found


def ndcg(relevance: Sequence[int] | NDArray[np.int64], best: int = 100) -> float:
    """Normalised discounted cumulative gain of a ranking, 0 to 1 (Jarvelin and Kekalainen 2002, gains 2^grade - 1).

    Args:
        relevance: grades in the order of the ranking, of *all* that was ranked.
        best: how many places count.

    Returns:
        1.0 also when nothing is relevant: no order is better than another.
    """
    gains = 2.0 ** np.asarray(relevance) - 1
    discount = 1 / np.log2(np.arange(2, min(best, len(gains)) + 2))
    ideal = float(np.sort(gains)[::-1][: len(discount)] @ discount)
    return float(gains[: len(discount)] @ discount) / ideal if ideal else 1.0


def _likeness(records: Records, user: User) -> Floats:
    topics = np.where(records["topics"] == BY_NAME["topics"].null, 0, records["topics"]).astype(np.float64)
    taste = np.array(user.topics, np.float64)
    length = np.linalg.norm(topics, axis=1) * np.linalg.norm(taste)
    return topics @ taste / np.where(length > 0, length, 1)


def _distance_km(records: Records, user: User) -> Floats:
    north = _value(records, "latitude", 0) - user.latitude
    east = (_value(records, "longitude", 0) - user.longitude) * np.cos(np.radians(user.latitude))
    distance: Floats = _KM_PER_DEGREE * np.hypot(north, east)
    return distance


def _value(records: Records, name: str, missing: float) -> Floats:
    field = BY_NAME[name]
    stored = records[name].astype(np.float64)
    return np.where(field.nullable & (stored == field.null), missing, stored / field.scale)
