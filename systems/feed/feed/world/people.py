"""The users: each drawn alone from seed and number, so that nobody has to keep them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from feed.record import BY_NAME, CATEGORIES, CITIES, TOPICS
from feed.user import MOST_SELLERS, MOST_WORDS, User, unknown

from .catalogue import ADJECTIVES, FIRST_ID, NOUNS, Catalogue

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
