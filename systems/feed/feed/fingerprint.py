"""What a feature code computes, in a word of 16 letters: stored with a model at training, compared when it is loaded.

It is taken of what the code *does*: of the features of made-up items that reach each branch and each field, seen by two
users. So a comment changes nothing, a constant or an exchanged column does, in Rust as in Python or Go. That each such
change is seen is tested with mutants (tests/test_skew.py).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .features import FEATURES
from .record import CATEGORIES, CITIES, FIELDS, TITLE_WORDS, TOPICS, Field, Item, Kind, pack
from .user import MOST_SELLERS, MOST_WORDS, User

Columns = NDArray[np.float32]
# Gives the features, (n, 60), of packed records as a user sees them at a Unix time.
FeatureCode = Callable[[list[bytes], User, int], Columns]

NOW_S: Final = 1_763_700_000
_ITEMS: Final = 160
_SELLERS: Final = tuple(range(1, MOST_SELLERS + 1))
_WORDS: Final = tuple(f"word{number}" for number in range(2 * MOST_WORDS))
_LARGEST: Final = {Kind.U8: 0xFE, Kind.U16: 0xFFFE, Kind.U32: 0xFFFF_FFFE}


def fingerprint(code: FeatureCode) -> str:
    """16 hexadecimal digits; the same for two codes that compute the same."""
    digest = hashlib.sha256("\n".join(FEATURES).encode())
    for records, user in probes():
        columns = np.asarray(code(records, user, NOW_S), np.float32)
        # A NaN is a NaN, whichever of its many bit patterns a processor makes.
        digest.update(np.ascontiguousarray(np.where(np.isnan(columns), np.float32(-7e37), columns)).tobytes())
    return digest.hexdigest()[:16]


def native_fingerprint() -> str:
    """Of the code that serves: features.rs."""
    from . import native

    return fingerprint(lambda records, user, now_s: np.asarray(native.features(records, user.packed(), now_s).columns))


@cache
def probes() -> list[tuple[list[bytes], User]]:
    """Packed records and who looks at them; always the same."""
    items = items_of(random.Random("probes"), _ITEMS)
    records = [pack(item) for item in items] + [pack(item, version=1) for item in items[:8]]
    near = _user(items[0], words=_WORDS[:MOST_WORDS], topics=[9, -20, 35, -47, 58, -66, 71, -89])
    far = User(2, CITIES[3], -48.25, -179.5, 31.5, 0.125, {}, [0] * TOPICS)
    # Just across the meridian opposite to the user's: the shorter way round is the other one.
    across = [pack(item | {"longitude": longitude}) for item, longitude in zip(items, (0.4, 0.6), strict=False)]
    return [(records, near), ([*records[:64], *across], far)]


def items_of(source: random.Random, count: int) -> list[Item]:
    """Items whose fields are drawn each by itself: small, large, extreme and null ones."""
    return [{field.name: _drawn(field, source) for field in FIELDS} for _ in range(count)]


def _user(item: Item, words: Iterable[str], topics: list[int]) -> User:
    weights = {name: (number + 1) / 400 for number, name in enumerate(CATEGORIES)}
    return User(
        1, CITIES[7], 55.75, 37.625, 1234.5, 0.375, weights, topics, list(words), [item["seller_id"], *_SELLERS[1:]]
    )


def _drawn(field: Field, source: random.Random) -> Any:
    if field.nullable and source.random() < 0.15:
        return None
    match field.kind:
        case Kind.CATEGORY:
            return source.choice(CATEGORIES)
        case Kind.CITY:
            return source.choice(CITIES)
        case Kind.FLAG:
            return source.random() < 0.5
        case Kind.TOPICS:
            return [source.randint(-127, 127) for _ in range(TOPICS)]
        case Kind.WORDS:
            return " ".join(source.choice(_WORDS) for _ in range(source.randint(0, TITLE_WORDS + 2)))
        case Kind.I32:
            return source.randint(-180 * field.scale, 180 * field.scale) / field.scale
    if field.name == "seller_id" and source.random() < 0.5:
        return source.choice(_SELLERS)
    if field.name.endswith("_s") and field.scale == 1:
        return NOW_S - source.randint(-86_400, 40 * 86_400)
    whole = source.choice(
        [0, 1, source.randint(0, 30), source.randint(0, 3000), source.randint(0, 10**6), _LARGEST[field.kind]]
    )
    whole = min(whole, _LARGEST[field.kind])
    return whole if field.scale == 1 else whole / field.scale
