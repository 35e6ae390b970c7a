"""The items: drawn column by column from a seed, 100,000 in a second or so, as packed records.

What is like the real thing: popularity is Zipf's, sellers have few or very many items, prices scatter around a market
price of their subcategory and city, counters are nested both ways (an hour within a day, clicks within impressions) and
follow popularity, quality and price; some fields are null for some items. What is not: everything else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from feed.record import (
    BY_NAME,
    CATEGORIES,
    CITY_COUNT,
    COUNTERS,
    DTYPE,
    TITLE_WORDS,
    TOPICS,
    VERSION,
    Item,
    Records,
    unpack,
    word_code,
)

Floats = NDArray[np.float64]

# The world's present, Unix time: nothing in it depends on the day on which it is made.
NOW_S: Final = 1_763_700_000
FIRST_ID: Final = 10_000_000
SUBCATEGORIES: Final = 12
REGIONS: Final = 20
DAY_S: Final = 86_400
# Zipf's exponent of popularity, and how many ranks are as popular as the first (a flat head).
_EXPONENT, _FLAT = 1.0, 20
# Impressions of a month for each item, on average.
_IMPRESSIONS = 3_000
_DAYS = 60.0


@dataclass(frozen=True)
class Catalogue:
    """The items of a world.

    Args:
        records: one packed record each; item number i has the id FIRST_ID + i.
        popularity: each item's share of attention; the sum is 1.
        centres: (categories, TOPICS) where each category lies in the space of topics.
        places: (cities, 2) latitude and longitude of each city.
    """

    records: Records
    popularity: Floats
    centres: Floats
    places: Floats

    def __len__(self) -> int:
        return len(self.records)

    def item(self, number: int) -> Item:
        """The item as Python sees it, its title as text."""
        item = unpack(self.records[number].tobytes())
        item["title"] = " ".join(BY_CODE[code] for code in item["title"])
        return item


def drawn(seed: int, count: int) -> Catalogue:
    """The catalogue of a seed: `count` items."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    records = np.zeros(count, DTYPE)
    records["version"] = VERSION
    records["item_id"] = FIRST_ID + np.arange(count)
    popularity = _zipf(rng, count)
    places = np.column_stack([rng.uniform(45, 62, CITY_COUNT), rng.uniform(30, 60, CITY_COUNT)])
    centres = rng.normal(0, 60, (len(CATEGORIES), TOPICS))
    _sellers_and_places(rng, records, places)
    _kinds(rng, records, centres)
    worth = _quality(rng, records)
    _prices(rng, records)
    _counters(rng, records, popularity, worth)
    _seen_by_others(rng, records, popularity, worth)
    return Catalogue(records, popularity, centres, places)


def _zipf(rng: np.random.Generator, count: int) -> Floats:
    share = 1.0 / (np.arange(count) + _FLAT) ** _EXPONENT
    return rng.permutation(share / share.sum())


def _sellers_and_places(rng: np.random.Generator, records: Records, places: Floats) -> None:
    count = len(records)
    sellers = max(1, count // 8)
    seller = (rng.pareto(1.1, count) * 3).astype(np.int64) * 7919 + rng.integers(0, sellers, count)
    seller = np.minimum(seller, 2**40) % sellers
    city_of = (rng.beta(0.6, 2.0, sellers) * CITY_COUNT).astype(np.int64)
    records["seller_id"] = 5_000_000 + seller
    records["city"] = city_of[seller]
    records["region"] = city_of[seller] // (CITY_COUNT // REGIONS)
    records["is_company"] = rng.random(sellers)[seller] < 0.25
    records["seller_items"] = np.minimum(np.bincount(seller, minlength=sellers)[seller], 60_000)
    reviews = np.minimum(rng.pareto(1.0, sellers) * 3, 50_000).astype(np.int64)
    records["seller_reviews"] = reviews[seller]
    rating = np.clip(rng.normal(4.4, 0.5, sellers), 1, 5)
    _set(records, "seller_rating", rating[seller], null=(reviews == 0)[seller])
    _set(records, "seller_reply_minutes", rng.gamma(1.2, 90, sellers)[seller], null=(rng.random(sellers) < 0.2)[seller])
    near = places[city_of[seller]] + rng.normal(0, 0.08, (count, 2))
    _set(records, "latitude", near[:, 0])
    _set(records, "longitude", near[:, 1])


def _kinds(rng: np.random.Generator, records: Records, centres: Floats) -> None:
    count = len(records)
    share = 1.0 / (np.arange(len(CATEGORIES)) + 4)
    category = rng.choice(len(CATEGORIES), count, p=share / share.sum())
    kind = (rng.beta(1, 1.6, count) * SUBCATEGORIES).astype(np.int64)
    records["category"] = category
    records["subcategory"] = category * SUBCATEGORIES + kind
    of_kind = 18 * np.sin(np.outer(kind + 1, np.arange(1, TOPICS + 1)))
    own = centres[category] + of_kind + rng.normal(0, 14, (count, TOPICS))
    records["topics"] = np.clip(np.rint(own), -127, 127)
    records["topics"][rng.random(count) < 0.02] = BY_NAME["topics"].null
    nouns = np.array([first_noun(number) for number in range(len(CATEGORIES))])
    codes = np.array(CODES, np.uint32)
    words = np.empty((count, TITLE_WORDS), np.uint32)
    # Distinct adjectives: consecutive places of a shuffled ring; a noun of the subcategory, perhaps a second one.
    ring = rng.permutation(len(ADJECTIVES))
    at = rng.integers(0, len(ADJECTIVES), count)
    for place in range(TITLE_WORDS - 2):
        words[:, place] = codes[ring[(at + place) % len(ADJECTIVES)]]
    length = rng.integers(1, TITLE_WORDS - 2, count)
    words[np.arange(TITLE_WORDS) >= length[:, None]] = 0
    rows = np.arange(count)
    words[rows, length] = codes[nouns[category] + kind % 6]
    words[rows, length + 1] = np.where(rng.random(count) < 0.3, codes[nouns[category] + (kind + 1) % 6], 0)
    records["title"] = words


def _quality(rng: np.random.Generator, records: Records) -> Floats:
    """Draws what describes an item's worth; gives that worth itself, 0 to 1, which no field holds."""
    count = len(records)
    worth = rng.beta(2.5, 2.0, count)
    _set(records, "quality", np.clip(worth + rng.normal(0, 0.12, count), 0, 1))
    _set(records, "text_quality", np.clip(0.5 * worth + 0.5 * rng.random(count), 0, 1))
    images = np.minimum(rng.poisson(1 + 7 * worth), 20)
    records["images"] = images
    _set(records, "photo_quality", np.clip(worth + rng.normal(0, 0.2, count), 0, 1), null=images == 0)
    records["description_chars"] = np.minimum(rng.gamma(1.5, 60 + 400 * worth), 9_000)
    asked = 4 + records["subcategory"] % 9
    records["attributes_asked"] = asked
    records["attributes"] = rng.binomial(asked, 0.3 + 0.65 * worth)
    records["has_delivery"] = rng.random(count) < np.where(records["is_company"], 0.7, 0.35)
    _set(records, "fraud_risk", rng.beta(1, 8 + 20 * worth), null=rng.random(count) < 0.1)
    created = NOW_S - np.minimum(rng.exponential(14, count), _DAYS) * DAY_S - 60
    records["created_s"] = created
    records["updated_s"] = created + (NOW_S - created) * rng.beta(0.7, 0.7, count)
    boost = rng.choice(4, count, p=[0.955, 0.025, 0.013, 0.007])
    records["boost"] = boost
    _set(records, "boost_until_s", NOW_S + rng.integers(-DAY_S, 6 * DAY_S, count), null=boost == 0)
    return worth


def _prices(rng: np.random.Generator, records: Records) -> None:
    count = len(records)
    base = np.exp(rng.normal(8.5, 1.6, len(CATEGORIES) * SUBCATEGORIES))
    market = base[records["subcategory"]] * np.exp(0.25 * np.sin(records["city"].astype(np.int64)))
    price = np.maximum(market * np.exp(rng.normal(0, 0.45, count)), 10)
    records["market_price"] = np.maximum(market, 10)
    _set(records, "price", _rounded(price), null=rng.random(count) < 0.07)
    _set(records, "old_price", _rounded(price * rng.uniform(1.05, 1.6, count)), null=rng.random(count) < 0.85)


def _rounded(price: Floats) -> Floats:
    """To two digits, as people write prices."""
    step = 10.0 ** np.maximum(np.floor(np.log10(price)) - 1, 0)
    rounded: Floats = np.rint(price / step) * step
    return rounded


def _counters(rng: np.random.Generator, records: Records, popularity: Floats, worth: Floats) -> None:
    """Draws of four disjoint stretches of time, added up: so a shorter window never holds more than a longer one."""
    count = len(records)
    age_days = (NOW_S - records["created_s"].astype(np.float64)) / DAY_S
    to_market = np.where(records["price"] == BY_NAME["price"].null, 1.0, records["price"] / records["market_price"])
    dear = np.log(to_market + 0.01)
    ctr = 0.09 / (1 + np.exp(-(2.2 * (worth - 0.5) - 0.8 * dear)))
    contact, favourite = 0.05 + 0.12 * worth, 0.03 + 0.1 * rng.beta(2, 5, count)
    totals = dict.fromkeys(COUNTERS, np.zeros(count, np.int64))
    before = 0.0
    for window, days in {"1h": 1 / 24, "1d": 1.0, "7d": 7.0, "30d": 30.0}.items():
        lived = np.clip(age_days, 0, days) - np.clip(age_days, 0, before)
        impressions = rng.poisson(_IMPRESSIONS * count * popularity * lived / 30)
        clicks = rng.binomial(impressions, ctr)
        parts = (impressions, clicks, rng.binomial(clicks, contact), rng.binomial(clicks, favourite))
        for counter, part in zip(COUNTERS, parts, strict=True):
            totals[counter] = totals[counter] + part
            records[f"{counter}_{window}"] = totals[counter]
        before = days


def _seen_by_others(rng: np.random.Generator, records: Records, popularity: Floats, worth: Floats) -> None:
    count = len(records)
    rarely = records["clicks_7d"] < 3
    _set(records, "dwell_s", rng.gamma(2 + 4 * worth, 6), null=rarely)
    _set(records, "mean_position", np.clip(300 * (1 - worth) * rng.gamma(2, 0.5, count), 0, 3_000), null=rarely)
    demand = 1 / (1 + np.exp(-(np.log(popularity * count) + rng.normal(0, 0.7, count))))
    _set(records, "demand", demand, null=rng.random(count) < 0.05)


def _set(records: Records, name: str, values: NDArray[Any], null: NDArray[np.bool_] | None = None) -> None:
    """Stores values as their field does: scaled, rounded, null where `null` is true."""
    field = BY_NAME[name]
    stored = np.rint(values * field.scale)
    records[name] = stored if null is None else np.where(null, field.null, stored)


# --- Words of titles: some nouns for each category, and adjectives for all.

NOUNS: Final[Mapping[str, tuple[str, ...]]] = {
    "cars": ("sedan", "hatchback", "wagon", "pickup", "coupe", "minivan"),
    "car_parts": ("tyres", "bumper", "gearbox", "headlight", "alternator", "rims"),
    "motorcycles": ("scooter", "motorcycle", "moped", "sidecar", "helmet", "quadbike"),
    "flats": ("studio", "apartment", "loft", "penthouse", "flatshare", "duplex"),
    "houses": ("cottage", "townhouse", "farmhouse", "bungalow", "plot", "cabin"),
    "garages": ("garage", "carport", "parking", "storage", "shed", "workshop"),
    "jobs": ("driver", "cook", "courier", "welder", "cashier", "developer"),
    "services": ("repair", "cleaning", "removal", "lessons", "plumbing", "catering"),
    "phones": ("smartphone", "phone", "charger", "earphones", "smartwatch", "tablet"),
    "laptops": ("laptop", "notebook", "keyboard", "monitor", "printer", "router"),
    "consoles": ("console", "gamepad", "joystick", "cartridge", "headset", "arcade"),
    "audio": ("speaker", "amplifier", "turntable", "soundbar", "subwoofer", "receiver"),
    "cameras": ("camera", "lens", "tripod", "flash", "drone", "projector"),
    "furniture": ("sofa", "table", "wardrobe", "armchair", "bookcase", "bed"),
    "kitchen": ("fridge", "oven", "kettle", "blender", "dishwasher", "toaster"),
    "garden": ("mower", "greenhouse", "seedlings", "barbecue", "hammock", "trimmer"),
    "clothes": ("jacket", "dress", "jeans", "sweater", "coat", "shirt"),
    "shoes": ("sneakers", "boots", "sandals", "heels", "slippers", "loafers"),
    "children": ("pram", "cot", "toys", "highchair", "sledge", "playpen"),
    "bicycles": ("bicycle", "tandem", "frame", "saddle", "pedals", "tricycle"),
    "sport": ("skis", "dumbbells", "treadmill", "snowboard", "racket", "kayak"),
    "books": ("novel", "textbook", "comics", "encyclopedia", "atlas", "magazine"),
    "music": ("guitar", "piano", "violin", "drums", "accordion", "saxophone"),
    "pets": ("kitten", "puppy", "aquarium", "parrot", "hamster", "terrarium"),
}
ADJECTIVES: Final = (
    "new", "used", "red", "blue", "black", "white", "cheap", "urgent", "original", "compact", "large", "small", "light",
    "sturdy", "vintage", "modern", "quiet", "fast", "wooden", "leather", "complete", "boxed", "tested", "rare",
)  # fmt: skip
# Every word once; titles are kept as numbers into it while the world is made.
WORDS: Final = (*ADJECTIVES, *(noun for category in CATEGORIES for noun in NOUNS[category]))
CODES: Final = tuple(word_code(word) for word in WORDS)
BY_CODE: Final[Mapping[int, str]] = dict(zip(CODES, WORDS, strict=True))


def first_noun(category: int) -> int:
    """Where in WORDS the nouns of a category begin."""
    return len(ADJECTIVES) + sum(len(NOUNS[name]) for name in CATEGORIES[:category])
