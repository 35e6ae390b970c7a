"""The 60 numbers that the ranking model sees of an item and a user: names, order, and the plain Python form.

`native/core/src/features.rs` is the form that training and serving run; this one is what it is compared with, and what
the variants in plain Python run. Both compute in IEEE double in the order written here and round once, to float32, so
they give the same bits. A null that means "not known" is NaN, which the model treats as below everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from .record import COUNTERS, TITLE_WORDS, TOPICS, WINDOWS, Item, word_code
from .user import MOST_SELLERS, MOST_WORDS, User

FEATURES: Final[tuple[str, ...]] = (
    *(f"log_{counter}_{window}" for counter in COUNTERS for window in WINDOWS),
    *(f"click_rate_{window}" for window in WINDOWS),
    *(f"contact_rate_{window}" for window in WINDOWS),
    *(f"favourite_rate_{window}" for window in WINDOWS),
    *(f"trend_{counter}" for counter in COUNTERS),
    "log_price",
    "log_market_price",
    "price_to_market",
    "price_to_usual",
    "discount_frac",
    "age_h",
    "updated_h",
    "images",
    "log_description_chars",
    "attributes_frac",
    "log_seller_reviews",
    "log_seller_items",
    "log_seller_reply_minutes",
    "seller_rating",
    "seller_is_known",
    "seller_is_company",
    "quality",
    "photo_quality",
    "text_quality",
    "distance_km",
    "category_interest",
    "topic_similarity",
    "words_in_common",
    "delivery_match",
    "log_dwell_s",
    "mean_position",
    "fraud_risk",
    "demand",
)
FEATURE_COUNT: Final = len(FEATURES)

_KM_PER_DEGREE: Final = 111.195
_NAN: Final = math.nan


def features_of(items: Iterable[Item], user: User, now_s: int) -> list[list[float]]:
    """A row of FEATURE_COUNT numbers for each item, as seen by this user at this Unix time."""
    seen = Seen(user, now_s)
    return [seen.features(item) for item in items]


class Seen:
    """Items as one user sees them at one time: what is the same for all items is prepared once."""

    def __init__(self, user: User, now_s: int) -> None:
        self.user = user
        self.now_s = now_s
        words = user.words[:MOST_WORDS]
        # An unpacked record has codes of words where JSON has the words.
        self.words = {*words, *map(word_code, words)}
        self.sellers = set(user.sellers[:MOST_SELLERS])
        self.longitude_share = math.cos(user.latitude * (math.pi / 180.0))
        self.topics_square = sum(topic * topic for topic in user.topics)

    def features(self, item: Item) -> list[float]:
        """The row of one item."""
        return [
            *(math.log1p(item[name]) for name in _COUNTERS),
            *((item[clicks] + 1.0) / (item[impressions] + 20.0) for impressions, clicks in _CLICKED),
            *((item[contacts] + 0.5) / (item[clicks] + 10.0) for clicks, contacts in _CONTACTED),
            *((item[favourites] + 0.5) / (item[clicks] + 10.0) for clicks, favourites in _FAVOURED),
            *((item[day] * 7.0) / (item[week] + 7.0) for day, week in _TRENDS),
            *self._price(item),
            (self.now_s - item["created_s"]) / 3600.0,
            (self.now_s - item["updated_s"]) / 3600.0,
            float(item["images"]),
            math.log1p(item["description_chars"]),
            item["attributes"] / item["attributes_asked"] if item["attributes_asked"] else 0.0,
            *self._seller(item),
            item["quality"],
            _known(item["photo_quality"]),
            item["text_quality"],
            self._distance_km(item["latitude"], item["longitude"]),
            self.user.categories.get(item["category"], 0.0),
            self._topic_similarity(item["topics"]),
            self._words_in_common(item["title"]),
            self.user.delivery_share if item["has_delivery"] else 1.0 - self.user.delivery_share,
            _log_known(item["dwell_s"]),
            _known(item["mean_position"]),
            _known(item["fraud_risk"]),
            _known(item["demand"]),
        ]

    def _price(self, item: Item) -> tuple[float, ...]:
        price, old, market = item["price"], item["old_price"], item["market_price"]
        if price is None:
            return _NAN, math.log1p(market), _NAN, _NAN, 0.0
        return (
            math.log1p(price),
            math.log1p(market),
            price / (market or 1.0),
            price / self.user.mean_price,
            (old - price) / old if old else 0.0,
        )

    def _seller(self, item: Item) -> tuple[float, ...]:
        return (
            math.log1p(item["seller_reviews"]),
            math.log1p(item["seller_items"]),
            _log_known(item["seller_reply_minutes"]),
            _known(item["seller_rating"]),
            1.0 if item["seller_id"] in self.sellers else 0.0,
            1.0 if item["is_company"] else 0.0,
        )

    def _distance_km(self, latitude: float, longitude: float) -> float:
        """On a map that is true to scale at the user's latitude: right to 1 % within 300 km."""
        north = latitude - self.user.latitude
        east = abs(longitude - self.user.longitude)
        if east > 180.0:
            east = 360.0 - east
        east *= self.longitude_share
        return _KM_PER_DEGREE * math.sqrt(north * north + east * east)

    def _topic_similarity(self, topics: Sequence[int] | None) -> float:
        """Cosine of both embeddings; 0 when one is not known."""
        if topics is None:
            return 0.0
        product = sum(mine * other for mine, other in zip(self.user.topics, topics, strict=True))
        squares = self.topics_square * sum(topic * topic for topic in topics)
        return product / math.sqrt(squares) if squares else 0.0

    def _words_in_common(self, title: str | list[int]) -> float:
        words = title.split(" ", TITLE_WORDS)[:TITLE_WORDS] if isinstance(title, str) else title
        return float(sum(word in self.words for word in words))


def _known(value: float | None) -> float:
    return _NAN if value is None else value


def _log_known(value: float | None) -> float:
    return _NAN if value is None else math.log1p(value)


_COUNTERS: Final = tuple(f"{counter}_{window}" for counter in COUNTERS for window in WINDOWS)
_CLICKED: Final = tuple((f"impressions_{window}", f"clicks_{window}") for window in WINDOWS)
_CONTACTED: Final = tuple((f"clicks_{window}", f"contacts_{window}") for window in WINDOWS)
_FAVOURED: Final = tuple((f"clicks_{window}", f"favourites_{window}") for window in WINDOWS)
_TRENDS: Final = tuple((f"{counter}_1d", f"{counter}_7d") for counter in COUNTERS)
assert FEATURE_COUNT == 60 and TOPICS == 8, "native code is written for them"
