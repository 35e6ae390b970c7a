"""Which items are ranked: what the first-level models named, without what the user has seen enough of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from .user import User

MODELS: Final = ("popular", "taste", "nearby", "similar")
# How many are ranked at most, and for a very active user.
MOST: Final = 3_000
MOST_ACTIVE: Final = 11_000

# What one model answered: ids, and for each a score from 0 to 1.
Named = tuple[Sequence[int], Sequence[float]]


def named(body: bytes) -> Named:
    """What a model's answer says.

    Raises:
        ValueError: it is not what a model answers.
    """
    answer = json.loads(body)
    ids, scores = (answer.get("ids"), answer.get("scores")) if isinstance(answer, dict) else (None, None)
    if not (are_ids(ids) and _all(scores, int, float) and len(ids) == len(scores)):
        raise ValueError("reading a model's answer: expected as many scores as ids")
    return ids, scores


def are_ids(values: Any) -> TypeGuard[Sequence[int]]:
    """It is a list of numbers that items can have: 32 bits."""
    return _all(values, int) and (not values or (min(values) >= 0 and max(values) < 2**32))


def _all(values: Any, *types: type) -> TypeGuard[Sequence[Any]]:
    return isinstance(values, list) and set(map(type, values)) <= set(types)


def chosen(answers: Mapping[str, Named], user: User) -> list[int]:
    """The ids to rank: most of them, by the sum of the models' scores, highest first, ties by id.

    This order is also the feed when nobody can rank.
    """
    # Summed in the order of MODELS, whichever answered first: sums of floats depend on it.
    scores: dict[int, float] = {}
    for model in MODELS:
        for item_id, score in zip(*answers.get(model, ((), ())), strict=True):
            scores[item_id] = scores.get(item_id, 0.0) + score
    for item_id in user.seen:
        scores.pop(item_id, None)
    return sorted(scores, key=lambda item_id: (-scores[item_id], item_id))[: most(user)]


def most(user: User) -> int:
    """How many candidates are ranked for a user, at most."""
    return MOST_ACTIVE if user.active else MOST
