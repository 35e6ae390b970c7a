"""What the service knows of one user when it ranks: the aggregated history, and its form for native code."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import Any, Final

from .record import CATEGORIES, CITIES, TOPICS, word_code

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
