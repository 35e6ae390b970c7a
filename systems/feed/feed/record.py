"""One item of the feed: its 50 fields, and the three forms in which a store keeps it.

This file is the only declaration of both. The packed layout is what `FIELDS` says, in that order, little-endian,
without padding, after a header of two bytes (version, zero). Everything that reads packed records takes its offsets
from here.

Exactness: numbers that are not whole are kept as whole numbers of 1/scale. `stored / scale` in IEEE double is the
double nearest to the decimal that JSON spells, so both forms give the same value, bit for bit.

Versions: a newer version only *appends* fields, so a record of version 1 is a prefix of one of version 2. `fitted()`
makes any version readable: what an older record lacks is null, what a newer one has more is cut off.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# The version that is written now. 1 had no topics, dwell_s, mean_position, fraud_risk, demand.
VERSION: Final = 2

CATEGORIES: Final = (
    "cars", "car_parts", "motorcycles", "flats", "houses", "garages", "jobs", "services",
    "phones", "laptops", "consoles", "audio", "cameras", "furniture", "kitchen", "garden",
    "clothes", "shoes", "children", "bicycles", "sport", "books", "music", "pets",
)  # fmt: skip
CITY_COUNT: Final = 200
# Cities are called city_000 to city_199.
CITIES: Final = tuple(f"city_{number:03d}" for number in range(CITY_COUNT))
# Words of a title that a packed record keeps, as hashes; further words are not looked at in any form.
TITLE_WORDS: Final = 8
# Length of the embedding `topics`: whole numbers in -127..127.
TOPICS: Final = 8
COUNTERS: Final = ("impressions", "clicks", "contacts", "favourites")
WINDOWS: Final = ("1h", "1d", "7d", "30d")

# An item as Python sees it: every field by its name; None = null. Fractions are floats, flags are bools.
Item = dict[str, Any]


class Kind(StrEnum):
    """How a field is stored in a packed record."""

    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    I32 = "i32"
    # One byte, 0 or 1; a bool elsewhere.
    FLAG = "flag"
    # One byte: index into CATEGORIES; the name elsewhere.
    CATEGORY = "category"
    # Two bytes: index into CITIES; the name elsewhere.
    CITY = "city"
    # TITLE_WORDS times u32: `word_code` of the first words, 0 = no word; the text elsewhere.
    WORDS = "words"
    # TOPICS times i8; a list elsewhere. Null = every byte -128.
    TOPICS = "topics"


# struct's letter of one element, and how many of them a field has.
_STORED: Final[Mapping[Kind, tuple[str, int]]] = {
    Kind.U8: ("B", 1),
    Kind.U16: ("H", 1),
    Kind.U32: ("I", 1),
    Kind.I32: ("i", 1),
    Kind.FLAG: ("B", 1),
    Kind.CATEGORY: ("B", 1),
    Kind.CITY: ("H", 1),
    Kind.WORDS: ("I", TITLE_WORDS),
    Kind.TOPICS: ("b", TOPICS),
}
# What a null is stored as: the largest unsigned, the smallest signed value of the element.
_NULLS: Final[Mapping[str, int]] = {"B": 0xFF, "H": 0xFFFF, "I": 0xFFFF_FFFF, "i": -(2**31), "b": -128}


@dataclass(frozen=True)
class Field:
    """One field of an item.

    Args:
        name: its key in JSON.
        kind: how a packed record stores it.
        scale: the stored whole number is the value times this; 1 = the value is whole.
        nullable: it may be null: null in JSON, `null` in packed records.
        since: the version that brought it.
    """

    name: str
    kind: Kind
    scale: int = 1
    nullable: bool = False
    since: int = 1

    @property
    def format(self) -> str:
        """struct's format of the whole field, without byte order."""
        letter, count = _STORED[self.kind]
        return letter if count == 1 else f"{count}{letter}"

    @property
    def size(self) -> int:
        """Bytes in a packed record."""
        return struct.calcsize("<" + self.format)

    @property
    def null(self) -> int:
        """The element's value that means null."""
        return _NULLS[_STORED[self.kind][0]]


def _counters() -> tuple[Field, ...]:
    return tuple(Field(f"{counter}_{window}", Kind.U32) for counter in COUNTERS for window in WINDOWS)


FIELDS: Final[tuple[Field, ...]] = (
    # version 1
    Field("item_id", Kind.U32),
    Field("seller_id", Kind.U32),
    Field("price", Kind.U32, nullable=True),
    Field("old_price", Kind.U32, nullable=True),
    # The median price of what is like it, known for every category and city.
    Field("market_price", Kind.U32),
    Field("latitude", Kind.I32, scale=1_000_000),
    Field("longitude", Kind.I32, scale=1_000_000),
    # Unix time.
    Field("created_s", Kind.U32),
    Field("updated_s", Kind.U32),
    # When the paid boost ends.
    Field("boost_until_s", Kind.U32, nullable=True),
    Field("title", Kind.WORDS),
    *_counters(),
    Field("seller_reviews", Kind.U16),
    Field("seller_items", Kind.U16),
    Field("seller_reply_minutes", Kind.U16, nullable=True),
    # 1.00 to 5.00.
    Field("seller_rating", Kind.U16, scale=100, nullable=True),
    Field("subcategory", Kind.U16),
    Field("city", Kind.CITY),
    Field("description_chars", Kind.U16),
    # Scores of models that run at night, 0.0000 to 1.0000.
    Field("quality", Kind.U16, scale=10_000),
    Field("photo_quality", Kind.U16, scale=10_000, nullable=True),
    Field("text_quality", Kind.U16, scale=10_000),
    Field("category", Kind.CATEGORY),
    Field("region", Kind.U8),
    Field("images", Kind.U8),
    # Attributes that the seller filled in, of attributes_asked.
    Field("attributes", Kind.U8),
    Field("attributes_asked", Kind.U8),
    # Paid boost: 0 none, 1 to 3 its level.
    Field("boost", Kind.U8),
    Field("is_company", Kind.FLAG),
    Field("has_delivery", Kind.FLAG),
    # version 2
    Field("topics", Kind.TOPICS, nullable=True, since=2),
    # Mean seconds that a viewer stays.
    Field("dwell_s", Kind.U16, scale=10, nullable=True, since=2),
    # Mean place in other people's feeds.
    Field("mean_position", Kind.U16, scale=10, nullable=True, since=2),
    Field("fraud_risk", Kind.U16, scale=10_000, nullable=True, since=2),
    Field("demand", Kind.U16, scale=10_000, nullable=True, since=2),
)
BY_NAME: Final[Mapping[str, Field]] = {field.name: field for field in FIELDS}

HEADER_BYTES: Final = 2


def _offsets() -> dict[str, int]:
    offsets, at = {}, HEADER_BYTES
    for field in FIELDS:
        offsets[field.name] = at
        at += field.size
    return offsets


# Where each field begins in a packed record, bytes from its first.
OFFSETS: Final[Mapping[str, int]] = _offsets()
# Length of a packed record of each version.
VERSION_BYTES: Final[Mapping[int, int]] = {
    version: HEADER_BYTES + sum(field.size for field in FIELDS if field.since <= version)
    for version in range(1, VERSION + 1)
}
RECORD_BYTES: Final = VERSION_BYTES[VERSION]


def word_code(word: str) -> int:
    """The number that stands for a word in packed records: CRC-32 of its UTF-8, never 0."""
    return zlib.crc32(word.encode()) or 1


def title_words(title: str) -> list[str]:
    """The words of a title that features look at: the first TITLE_WORDS, as they are written (in lower case)."""
    return title.split(" ", TITLE_WORDS)[:TITLE_WORDS]


# --- packed

_PACKERS: Final = {
    version: struct.Struct("<BB" + "".join(field.format for field in FIELDS if field.since <= version))
    for version in VERSION_BYTES
}
_NULL_BYTES: Final = b"".join(
    struct.pack("<" + field.format, *[field.null] * _STORED[field.kind][1]) for field in FIELDS
)

_HEADER: Final = bytes((VERSION, 0))


def pack(item: Item, version: int = VERSION) -> bytes:
    """The item as a packed record of VERSION_BYTES[version] bytes."""
    stored = [element for field in FIELDS if field.since <= version for element in _stored(field, item[field.name])]
    return _PACKERS[version].pack(version, 0, *stored)


def fitted(record: bytes) -> bytes:
    """The record as one of the current version: nulls for what an older one lacks, without what a newer one has more.

    Raises:
        ValueError: it is no record: version 0, or not as long as its version (a newer one: shorter than ours).
    """
    version = record[0] if record else 0
    if version == VERSION and len(record) == RECORD_BYTES:
        return record
    known = VERSION_BYTES.get(version, max(len(record), RECORD_BYTES))
    if version < 1 or len(record) != known:
        rule = f"one of {dict(VERSION_BYTES)}"
        raise ValueError(f"reading a record: version={version}, {len(record)} bytes, expected {rule}")
    return _HEADER + record[HEADER_BYTES:RECORD_BYTES] + _NULL_BYTES[len(record) - HEADER_BYTES :]


def unpack(record: bytes) -> Item:
    """The item of a packed record of any version; `title` is the list of its words' codes: the text is not kept."""
    elements = iter(_PACKERS[VERSION].unpack(fitted(record))[HEADER_BYTES:])
    return {field.name: _value(field, [next(elements) for _ in range(_STORED[field.kind][1])]) for field in FIELDS}


def _stored(field: Field, value: Any) -> Iterable[int]:
    """The elements that stand for a value."""
    count = _STORED[field.kind][1]
    if value is None:
        if not field.nullable:
            raise ValueError(f"packing an item: {field.name}=None, expected a value: the field is not nullable")
        return [field.null] * count
    match field.kind:
        case Kind.WORDS:
            codes = [word_code(word) for word in title_words(value)]
            return codes + [0] * (count - len(codes))
        case Kind.TOPICS:
            return list(value)
        case Kind.CATEGORY:
            return [CATEGORIES.index(value)]
        case Kind.CITY:
            return [int(value.removeprefix("city_"))]
        case Kind.FLAG:
            return [int(value)]
    return [round(value * field.scale)]


def _value(field: Field, elements: list[int]) -> Any:
    """The value that elements stand for."""
    if field.nullable and all(element == field.null for element in elements):
        return None
    match field.kind:
        case Kind.WORDS:
            return [code for code in elements if code]
        case Kind.TOPICS:
            return elements
        case Kind.CATEGORY:
            return CATEGORIES[elements[0]]
        case Kind.CITY:
            return CITIES[elements[0]]
        case Kind.FLAG:
            return bool(elements[0])
    return elements[0] if field.scale == 1 else elements[0] / field.scale


# --- JSON


class OlderItem(Item):
    """An item that an older version stored: what it lacks is None."""


def to_json(item: Item, version: int = VERSION) -> bytes:
    """The item as compact JSON, about 1 kB; an older version lacks the keys that came later."""
    kept = {field.name: item[field.name] for field in FIELDS if field.since <= version}
    return json.dumps(kept, separators=(",", ":")).encode()


def from_json(text: bytes) -> Item:
    """The item of JSON of any version."""
    item: Item = json.loads(text)
    return item if len(item) == len(FIELDS) else OlderItem(_LACKING | item)


# What items of older versions lack.
_LACKING: Final[Item] = {field.name: None for field in FIELDS if field.since > 1}


# --- Packed records as numpy columns: one array of structures over their bytes, nothing copied.


_NUMPY: Final = {
    Kind.U8: "u1",
    Kind.U16: "<u2",
    Kind.U32: "<u4",
    Kind.I32: "<i4",
    Kind.FLAG: "u1",
    Kind.CATEGORY: "u1",
    Kind.CITY: "<u2",
    Kind.WORDS: "(8,)<u4",
    Kind.TOPICS: "(8,)i1",
}

# One packed record of the current version; the header's version is the field `version`. Values are as stored: scaled
# whole numbers, nulls as record.py says.
DTYPE: Final = np.dtype(
    {
        "names": ["version", *(field.name for field in FIELDS)],
        "formats": ["u1", *(_NUMPY[field.kind] for field in FIELDS)],
        "offsets": [0, *(OFFSETS[field.name] for field in FIELDS)],
        "itemsize": RECORD_BYTES,
    }
)

Records = NDArray[np.void]


def records_of(packed: bytes | bytearray | memoryview) -> Records:
    """The records that lie one after the other in `packed`: a view, read-only if it is."""
    return np.frombuffer(packed, DTYPE)
