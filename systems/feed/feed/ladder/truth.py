"""Whether an order is right, and how good it is: scores and grades from the world itself, without any service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from feed.model import ModelFiles, load_catboost
from feed.world.catalogue import NOW_S
from feed.world.lessons import candidates_of, grades, ndcg, utility
from feed.world.world import World

# Neighbours whose scores differ by less may stand either way round: evaluators round differently.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Judged:
    """One order.

    Args:
        right: every candidate once, best first, except neighbours within TOLERANCE.
        exchanged: places at which it is not the order by score and id.
        ndcg: of its first 100.
    """

    right: bool
    exchanged: int
    ndcg: float


class Truth:
    """What the feed of any user must be."""

    def __init__(self, world: World, model: Path) -> None:
        self._world = world
        self._model = load_catboost(ModelFiles(model))
        self._known: dict[int, tuple[dict[int, float], dict[int, int]]] = {}

    def judged(self, user: int, ranked: Sequence[int]) -> Judged:
        """An order of the user's candidates, before the business rules."""
        scores, worth = self._of(user)
        if len(ranked) != len(scores) or any(item not in scores for item in ranked):
            return Judged(right=False, exchanged=len(ranked), ndcg=0.0)
        best = sorted(scores, key=lambda item: (-scores[item], item))
        return Judged(
            is_sorted([scores[item] for item in ranked]) and len(set(ranked)) == len(ranked),
            sum(one != other for one, other in zip(ranked, best, strict=True)),
            ndcg([worth[item] for item in ranked]),
        )

    def _of(self, user: int) -> tuple[dict[int, float], dict[int, int]]:
        """Scores and grades of a user's candidates."""
        if user not in self._known:
            person = self._world.people.user(user)
            ids = candidates_of(self._world, person)
            records = self._world.records_of(ids)
            # Not at the top: the command's own errors are told before anything is built.
            from feed import native

            matrix = native.features(records.tobytes(), person.packed(), NOW_S)
            scores: NDArray[Any] = self._model.predict(np.asarray(matrix.columns), thread_count=1)
            worth = grades(utility(records, person))
            self._known[user] = (
                dict(zip(ids, scores.tolist(), strict=True)), dict(zip(ids, worth.tolist(), strict=True)),
            )  # fmt: skip
        return self._known[user]


def is_sorted(scores: Sequence[float]) -> bool:
    """Best first, except differences below TOLERANCE."""
    found = np.asarray(scores)
    # Held against the worst so far and not only the neighbour: many small steps back are a wrong order, too.
    return bool((found < np.minimum.accumulate(found) + TOLERANCE).all()) if len(found) else True
