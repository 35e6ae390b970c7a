"""What the service knows of one user when it ranks: the aggregated history, and its form for native code."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from feed.record import CATEGORIES, CITIES, TOPICS, word_code

# More of them are not looked at, in any form.
MOST_WORDS: Final = 16
MOST_SELLERS: Final = 16

# Packed: latitude, longitude, mean_price, delivery_share, weight of each category, topics (f64 all); codes of words
# (u32, 0 = none), sellers (u32, 0 = none), city's number (u32), how many words, how many sellers (u32).
_PACKER: Final = struct.Struct(f"<4d{len(CATEGORIES)}d{TOPICS}d{MOST_WORDS}I{MOST_SELLERS}I3I")
USER_BYTES: Final = _PACKER.size


@dataclass(frozen=True)
class User:
    """A user's aggregated history: what a month of actions says.

    Args:
        user_id: the account.
        city: one of CITIES.
        latitude, longitude: degrees.
        mean_price: of what was looked at, at least 1.
        delivery_share: share of looked-at items with delivery, 0 to 1.
        categories: interest in each category that has any; the values' sum is at most 1.
        topics: taste as an embedding, TOPICS whole numbers in -127..127; zeros when nothing is known.
        words: what was searched for, newest first, at most MOST_WORDS.
        sellers: contacted, newest first, at most MOST_SELLERS.
        seen: ids of items that were looked at enough: left out of the feed.
        active: looks at so much that three times as many candidates are ranked.
    """

    user_id: int
    city: str
    latitude: float
    longitude: float
    mean_price: float
    delivery_share: float
    categories: dict[str, float]
    topics: list[int]
    words: list[str] = field(default_factory=list)
    sellers: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    active: bool = False

    def packed(self) -> bytes:
        """USER_BYTES bytes for native code: all that features look at."""
        words = [word_code(word) for word in self.words[:MOST_WORDS]]
        sellers = self.sellers[:MOST_SELLERS]
        return _PACKER.pack(
            self.latitude, self.longitude, self.mean_price, self.delivery_share,
            *[self.categories.get(name, 0.0) for name in CATEGORIES],
            *[float(topic) for topic in self.topics],
            *words, *[0] * (MOST_WORDS - len(words)),
            *sellers, *[0] * (MOST_SELLERS - len(sellers)),
            CITIES.index(self.city), len(words), len(sellers),
        )  # fmt: skip

    def to_json(self) -> bytes:
        """As the history store keeps it."""
        return json.dumps(vars(self), separators=(",", ":")).encode()


def from_json(text: bytes) -> User:
    """The user that the history store gave."""
    stored: dict[str, Any] = json.loads(text)
    return User(**stored)


def unknown(user_id: int) -> User:
    """Somebody without a history: the country's middle, no interests, nothing seen."""
    return User(user_id, CITIES[0], 55.75, 37.62, 1000.0, 0.5, {}, [0] * TOPICS)


# --- Which items are ranked: what the first-level models named, without what the user has seen enough of.


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
