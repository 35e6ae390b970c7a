"""The functions that are placed, and their arguments: the same in every process and contender.

They stand at the top of a module that imports quickly, as they must to reach a worker process by name. What they need
is imported where it is used.
"""

from __future__ import annotations

import ctypes
import functools
import json
import math
import pickle
import random
from collections.abc import Callable
from typing import Any, Final

#: Rows of every payload, and features of a row. Arbitrary: a page of recommendations before its ranking.
ITEMS: Final = 3_000
FEATURES: Final = 60
_KINDS: Final = ("views", "contacts", "likes", "shown", "clicks", "chats")
_SPANS: Final = ("1h", "1d", "7d", "30d")
_COUNTERS: Final = tuple(f"{kind}_{span}" for kind in _KINDS for span in _SPANS)
_SCORES: Final = tuple(f"score_{number}" for number in range(10))
_WORDS: Final = ("red", "small", "used", "good", "table", "phone", "bike", "lamp", "box", "fast")
_NOW_S: Final = 1_700_000_000
_HOME: Final = (52.5, 13.4)

_libc = ctypes.CDLL(None)


def items(number: int = ITEMS, seed: int = 1) -> bytes:
    """This many items of 50 fields as the JSON text of one list, about 1 kB each."""
    source = random.Random(seed)
    return json.dumps([_item(number, source) for number in range(number)], separators=(",", ":")).encode()


def features(body: bytes) -> Any:
    """Parse items and compute the features of each, in plain Python. Holds the GIL throughout.

    Returns:
        float32, (items, FEATURES), C order.
    """
    import numpy

    rows = [_features(item) for item in json.loads(bytes(body))]
    return numpy.array(rows, dtype="f4")


def table(seed: int = 1) -> Any:
    """Features as an array: float32, (ITEMS, FEATURES), C order, above 0."""
    import numpy

    return numpy.random.default_rng(seed).gamma(2.0, 50.0, (ITEMS, FEATURES)).astype("f4")


def standardised(values: Any, passes: int) -> Any:
    """Take logarithms and standardise columns, this many times. Its ufuncs release the GIL.

    Returns:
        float32, as `values`.
    """
    import numpy

    found = values
    for _ in range(passes):
        found = numpy.log1p(numpy.abs(found))
        found = (found - found.mean(axis=0)) / (found.std(axis=0) + numpy.float32(1e-6))
    return found


def scored(values: Any, model: str) -> Any:
    """Predict with the CatBoost model in that file, on one thread. Releases the GIL while it does.

    Returns:
        float64, (rows,).
    """
    return _model(model).predict(values, thread_count=1)


def squares(iterations: int) -> int:
    """Pure Python that keeps the GIL."""
    value = 0
    for number in range(iterations):
        value += number * number
    return value


def nap(ms: float) -> float:
    """Sleep in C without the GIL, as a driver does that waits for its own socket: nothing in Python sees it."""
    _libc.usleep(int(ms * 1000))
    return ms


def packed_call(fn: Callable[..., Any], blob: bytes) -> bytes:
    """Call `fn` with pickled arguments and pickle what it gives: what a careful user of a process pool sends."""
    return pickle.dumps(fn(*pickle.loads(blob)), 5)


@functools.lru_cache(maxsize=1)
def _model(path: str) -> Any:
    from catboost import CatBoost

    return CatBoost().load_model(path)


def _item(number: int, source: random.Random) -> dict[str, object]:
    found: dict[str, object] = {
        "item_id": 10_000_000 + number,
        "seller_id": source.randrange(10**7),
        "category": source.choice(_WORDS),
        "category_id": source.randrange(300),
        "city": f"city {source.randrange(400)}",
        "region_id": source.randrange(90),
        "price": source.choice((None, source.randrange(100, 10**6), source.randrange(100, 10**6))),
        "title": " ".join(source.choice(_WORDS) for _ in range(6)),
        "created_s": _NOW_S - source.randrange(10**6),
        "updated_s": _NOW_S - source.randrange(10**5),
        "company": source.random() < 0.3,
        "delivery": source.random() < 0.5,
        "latitude": 52 + source.random(),
        "longitude": 13 + source.random(),
        "services": source.sample(range(1, 7), source.choice((0, 0, 0, 1, 2))),
        "photos": source.randrange(12),
    }
    found |= {name: source.randrange(1000) for name in _COUNTERS}
    return found | {name: source.random() for name in _SCORES}


def _features(item: dict[str, Any]) -> list[float]:
    found = [math.log1p(item[name]) for name in _COUNTERS]
    for above, below in (("clicks", "shown"), ("contacts", "views"), ("likes", "views"), ("chats", "contacts")):
        for span in _SPANS:
            found.append((item[f"{above}_{span}"] + 1) / (item[f"{below}_{span}"] + 10))
    found += [item[name] for name in _SCORES]
    price = item["price"]
    found += [0.0, 1.0] if price is None else [math.log1p(price), 0.0]
    found += [(_NOW_S - item["created_s"]) / 3600, (_NOW_S - item["updated_s"]) / 3600]
    found.append(math.hypot(item["latitude"] - _HOME[0], item["longitude"] - _HOME[1]) * 111)
    words = set(item["title"].split())
    found += [float(len(words)), float("phone" in words), float(len(item["services"])), float(item["delivery"])]
    found.append(item["photos"] / 12)
    return found
