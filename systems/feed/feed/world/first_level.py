"""What the four first-level models answer: ids and scores, best first, from arrays over the whole catalogue.

Each is simple on purpose: they are there to name candidates, as an index or a small model does; ranking is the second
level's affair. Scores are rounded to 1/10,000: JSON spells them exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from feed.record import BY_NAME, CATEGORIES, CITIES
from feed.user import User

from .catalogue import FIRST_ID, NOW_S, REGIONS, Catalogue

Scores = NDArray[np.float64]
# How many ids a model names, for most users and for very active ones.
NAMED: Final = 1_100
NAMED_ACTIVE: Final = 4_300


class FirstLevel:
    """The models over one catalogue. `answer` takes a few ms of CPU; arrays of the whole catalogue, made once."""

    def __init__(self, catalogue: Catalogue) -> None:
        records = catalogue.records
        self._category = records["category"].astype(np.intp)
        self._region = records["region"].astype(np.intp)
        self._subcategory = records["subcategory"].astype(np.intp)
        popular = np.log1p(catalogue.popularity * len(catalogue))
        self._popular = popular / popular.max()
        topics = np.where(records["topics"] == BY_NAME["topics"].null, 0, records["topics"]).astype(np.float32)
        norm = np.linalg.norm(topics, axis=1)
        self._topics = topics / np.where(norm > 0, norm, 1)[:, None]
        age_s = NOW_S - records["updated_s"].astype(np.float64)
        self._fresh = np.exp(-age_s / (10 * 86_400))
        smoothed = (records["clicks_30d"] + 2.0) / (records["impressions_30d"] + 50.0)
        self._clicked = np.clip(smoothed / 0.12, 0, 1)

    def answer(self, model: str, user: User) -> tuple[list[int], list[float]]:
        """Ids and scores (0 to 1, rounded to 1/10,000) of one of candidates.MODELS: highest first, ties by id."""
        scores = np.rint(np.clip(_ANSWERS[model](self, user), 0, 1) * 10_000)
        many = min(NAMED_ACTIVE if user.active else NAMED, len(scores))
        best = np.argpartition(-scores, many - 1)[:many] if many < len(scores) else np.arange(len(scores))
        best = best[np.lexsort((best, -scores[best]))]
        return (best + FIRST_ID).tolist(), (scores[best] / 10_000).tolist()

    def _popular_of(self, user: User) -> Scores:
        scores: Scores = self._popular * (0.05 + self._interest(user))
        return scores

    def _like_taste(self, user: User) -> Scores:
        taste = np.array(user.topics, np.float32)
        return (self._topics @ (taste / (np.linalg.norm(taste) or 1.0))).astype(np.float64)

    def _nearby(self, user: User) -> Scores:
        apart = np.abs(np.arange(REGIONS) - CITIES.index(user.city) // (len(CITIES) // REGIONS))
        near = np.exp(-apart / 1.5)[self._region]
        scores: Scores = near * (0.25 + self._interest(user)) * (0.3 + 0.7 * self._fresh)
        return scores

    def _like_seen(self, user: User) -> Scores:
        seen = self._subcategory[np.array(user.seen, np.intp) - FIRST_ID] if user.seen else np.empty(0, np.intp)
        looks = np.bincount(seen, minlength=int(self._subcategory.max()) + 1)
        scores: Scores = np.sqrt(looks / max(1, looks.max()))[self._subcategory] * self._clicked
        return scores

    def _interest(self, user: User) -> Scores:
        return np.array([user.categories.get(name, 0.0) for name in CATEGORIES])[self._category]


_ANSWERS: Final[Mapping[str, Callable[[FirstLevel, User], Scores]]] = {
    "popular": FirstLevel._popular_of,
    "taste": FirstLevel._like_taste,
    "nearby": FirstLevel._nearby,
    "similar": FirstLevel._like_seen,
}
