"""The ranking model as files: kept by training, loaded by who ranks, refused when trained on other features."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from feed.features import FEATURES
from feed.record import CATEGORIES, CITIES, FIELDS, TITLE_WORDS, TOPICS, Field, Item, Kind, pack
from feed.user import MOST_SELLERS, MOST_WORDS, User

if TYPE_CHECKING:
    from catboost import CatBoost

    from feed.native import Forest


# --- What a feature code computes, in a word of 16 letters: stored with a model at training, compared when it is
# loaded.


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


# Under this name the fingerprint of the features lies in both files of a model.
FINGERPRINT_KEY: Final = "feed_features"


class SkewError(Exception):
    """A model was trained on other features than this code computes: its scores would mean nothing."""

    #: What a command ends with.
    exit_code = 1


@dataclass(frozen=True)
class ModelFiles:
    """Where a model lies.

    Args:
        folder: `model.cbm` (CatBoost's own) and `model.json` (what our evaluator reads), `report.json` (what training
        saw).
    """

    folder: Path

    @property
    def cbm(self) -> Path:
        """CatBoost's own format."""
        return self.folder / "model.cbm"

    @property
    def json(self) -> Path:
        """CatBoost's JSON format."""
        return self.folder / "model.json"

    @property
    def report(self) -> Path:
        """What training measured, as JSON."""
        return self.folder / "report.json"


def load_catboost(files: ModelFiles) -> CatBoost:
    """The model for CatBoost's `predict`; give it `native.features(…).columns`, which it reads without a copy.

    Raises:
        SkewError: it was trained on other features.
    """
    from catboost import CatBoost

    model = CatBoost()
    model.load_model(str(files.cbm))
    # The wheel's metadata is a mapping with keys() and [] only.
    stored = model.get_metadata()
    _check(files.cbm, stored[FINGERPRINT_KEY] if FINGERPRINT_KEY in stored.keys() else None)
    return model


def load_forest(files: ModelFiles) -> Forest:
    """The model for our evaluator, `native.rank`.

    Raises:
        SkewError: it was trained on other features.
    """
    from feed.native import Forest

    forest = Forest(files.json.read_bytes())
    _check(files.json, forest.metadata(FINGERPRINT_KEY))
    return forest


def _check(path: Path, trained_on: str | None) -> None:
    here = native_fingerprint()
    if trained_on != here:
        raise SkewError(
            f"loading a model: features of {path.name}={trained_on!r}, expected {here!r}, what this code computes\n"
            "hint: python -m feed.train"
        )
