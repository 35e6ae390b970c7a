"""Which items are ranked: what the first-level models named, without what the user has seen enough of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .user import User

# The first-level models: the columns of `scores`.
MODELS: Final = ("popular", "taste", "nearby", "similar")
# How many are ranked at most.
MOST: Final = 3_000
MOST_ACTIVE: Final = 9_000

# What one model answered: ids and scores, best first.
Named = tuple[Sequence[int], Sequence[float]]


@dataclass(frozen=True)
class Candidates:
    """Items to rank.

    Args:
        ids: by their best first-level score, highest first, ties by id: the order of an answer that nobody can rank.
        scores: for each id the four models' scores in the order of MODELS; 0.0 = that model did not name it.
    """

    ids: list[int]
    scores: list[list[float]]


def chosen(answers: Mapping[str, Named], user: User) -> Candidates:
    """The candidates of the models that answered: MOST of them (MOST_ACTIVE for a very active user)."""
    scores: dict[int, list[float]] = {}
    for column, model in enumerate(MODELS):
        ids, given = answers.get(model, ((), ()))
        for item_id, score in zip(ids, given, strict=True):
            scores.setdefault(item_id, [0.0, 0.0, 0.0, 0.0])[column] = score
    for item_id in user.seen:
        scores.pop(item_id, None)
    ids = sorted(scores, key=lambda item_id: (-max(scores[item_id]), item_id))
    del ids[MOST_ACTIVE if user.active else MOST :]
    return Candidates(ids, [scores[item_id] for item_id in ids])
