"""A world: seed and size give items, users, first-level models; kept in a folder for the processes that share it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from feed.record import BY_NAME, CATEGORIES, CITIES, DTYPE, OFFSETS, TOPICS, VERSION, Records
from feed.user import MOST_SELLERS, MOST_WORDS, User, unknown
from feed.world.catalogue import ADJECTIVES, FIRST_ID, NOUNS, NOW_S, REGIONS, Catalogue, drawn

# --- The users: each drawn alone from seed and number, so that nobody has to keep them all.


FIRST_USER: Final = 1
# Shares of users: without any history; very active, who get three times the candidates.
_NEW_FRAC, _ACTIVE_FRAC = 0.01, 0.05


@dataclass(frozen=True)
class People:
    """The users of a world: `user(number)` for any number from FIRST_USER on."""

    seed: int
    catalogue: Catalogue

    def user(self, number: int) -> User:
        """One user; the same for the same seed, number and catalogue."""
        rng = np.random.Generator(np.random.PCG64([self.seed, 2, number]))
        if rng.random() < _NEW_FRAC:
            return unknown(number)
        return self._drawn(number, rng)

    def _drawn(self, number: int, rng: np.random.Generator) -> User:
        records = self.catalogue.records
        active = bool(rng.random() < _ACTIVE_FRAC)
        liked = rng.choice(len(CATEGORIES), int(rng.integers(1, 5)), replace=False)
        weights = rng.dirichlet(np.full(len(liked), 1.5)) * rng.uniform(0.7, 1.0)
        seen = self._seen(rng, liked, weights, active)
        prices = records["price"][seen]
        known = prices[prices != BY_NAME["price"].null]
        taste = (weights[:, None] * self.catalogue.centres[liked]).sum(0) + rng.normal(0, 25, TOPICS)
        city = int(rng.beta(0.6, 2.0) * len(CITIES))
        near = self.catalogue.places[city] + rng.normal(0, 0.05, 2)
        contacted = records["seller_id"][seen[: 4 * MOST_SELLERS : 4]]
        return User(
            number, CITIES[city], round(float(near[0]), 6), round(float(near[1]), 6),
            mean_price=_mean_price(known) if len(known) else 1000.0,
            delivery_share=round(float(records["has_delivery"][seen].mean()), 4) if len(seen) else 0.5,
            categories={CATEGORIES[one]: round(float(weight), 4) for one, weight in zip(liked, weights, strict=True)},
            topics=[int(topic) for topic in np.clip(np.rint(taste), -127, 127)],
            words=_words(rng, liked), sellers=[int(seller) for seller in dict.fromkeys(contacted.tolist())],
            seen=sorted(int(one) + FIRST_ID for one in seen), active=active,
        )  # fmt: skip

    def _seen(self, rng: np.random.Generator, liked: np.ndarray, weights: np.ndarray, active: bool) -> np.ndarray:
        """Numbers of items: mostly popular ones of the liked categories, newest look first."""
        many = int(min(rng.lognormal(5.3, 0.8) * (3 if active else 1), 3_000, len(self.catalogue) / 8))
        chosen = np.cumsum(self.catalogue.popularity).searchsorted(rng.random(6 * many))
        category = self.catalogue.records["category"][np.minimum(chosen, len(self.catalogue) - 1)]
        interest = np.full(len(CATEGORIES), 0.02)
        interest[liked] += weights
        kept = chosen[rng.random(len(chosen)) < interest[category] / interest.max()]
        kept = np.minimum(kept, len(self.catalogue) - 1)
        newest: np.ndarray = kept[np.sort(np.unique(kept, return_index=True)[1])][:many]
        return newest


def _mean_price(prices: np.ndarray) -> float:
    """Geometric: one flat among phones does not make somebody rich."""
    return max(1.0, round(float(np.exp(np.log(prices.astype(np.float64)).mean())), 2))


def _words(rng: np.random.Generator, liked: np.ndarray) -> list[str]:
    nouns = [noun for one in liked for noun in NOUNS[CATEGORIES[one]]]
    searched = rng.choice(nouns, min(len(nouns), int(rng.integers(2, 9))), replace=False).tolist()
    return [*searched, *rng.choice(ADJECTIVES, int(rng.integers(0, 4)), replace=False).tolist()][:MOST_WORDS]


# --- What the four first-level models answer: ids and scores, best first, from arrays over the whole catalogue.


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


SEED: Final = 1
ITEMS: Final = 120_000
# To be raised with any change of what a seed gives: kept worlds of another edition are made again.
_EDITION: Final = 1


@dataclass(frozen=True)
class World:
    """Everything that is made up.

    Args:
        seed: gives another world each.
        catalogue: its items.
    """

    seed: int
    catalogue: Catalogue

    @cached_property
    def people(self) -> People:
        """Its users."""
        return People(self.seed, self.catalogue)

    @cached_property
    def first_level(self) -> FirstLevel:
        """What its first-level models answer."""
        return FirstLevel(self.catalogue)

    def records_of(self, ids: list[int]) -> Records:
        """The records of these items, in this order."""
        return self.catalogue.records[np.array(ids, np.intp) - FIRST_ID]


def made(seed: int = SEED, items: int = ITEMS) -> World:
    """The world of a seed, made in memory: about 5 us an item."""
    return World(seed, drawn(seed, items))


def kept(folder: Path, seed: int = SEED, items: int = ITEMS) -> World:
    """The world of a seed from `folder`, made there first if need be; its records are mapped, once for all."""
    path = folder / name(seed, items)
    if not path.exists():
        _keep(made(seed, items), path)
    with np.load(path / "arrays.npz") as arrays:
        small = {key: arrays[key] for key in ("popularity", "centres", "places")}
    return World(seed, Catalogue(np.memmap(path / "records.bin", DTYPE, "r"), **small))


def name(seed: int, items: int) -> str:
    """What a kept world's folder is called: another for everything that changes its contents."""
    return f"world-{seed}-{items}-r{VERSION}.{max(OFFSETS.values())}-e{_EDITION}"


def _keep(world: World, path: Path) -> None:
    """Written aside and renamed: two makers do no harm, the first one's stays."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.mkdir(parents=True)
    catalogue = world.catalogue
    catalogue.records.tofile(aside / "records.bin")
    np.savez(aside / "arrays.npz", popularity=catalogue.popularity, centres=catalogue.centres, places=catalogue.places)
    try:
        aside.rename(path)
    except OSError:
        for file in aside.iterdir():
            file.unlink()
        aside.rmdir()
