"""Where native code finds the fields of packed records: Rust and Go sources written from the declaration in record.py.

`python -m feed.layout` rewrites them; a test holds that they are what it would write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from . import record, user
from .features import FEATURES
from .service import rules
from .stores import history, items
from .world import catalogue

_NATIVE: Final = Path(__file__).resolve().parent.parent / "native"
#: What Go reads of the numbers.
_OF_GO: Final = frozenset({
    "TITLE_WORDS", "TOPIC_COUNT", "CATEGORY_COUNT", "USER_BYTES", "MOST_WORDS", "MOST_SELLERS", "FEATURE_COUNT",
})  # fmt: skip
_ORIGIN: Final = (
    "Written by `python -m feed.layout` from record.py, user.py, features.py and service/rules.py; do not edit."
)


def rust() -> str:
    """Text of layout.rs: one constant a name, arrays of names."""
    lines = [f"//! {_ORIGIN}", ""]
    lines += [f"pub const {name}: usize = {value};" for name, value in _numbers()]
    lines += ["", "/// Bytes from a record's first to each field's."]
    lines += [f"pub const {name.upper()}: usize = {offset};" for name, offset in record.OFFSETS.items()]
    lacking = ", ".join(f"{byte:#04x}" for byte in _lacking())
    lines += ["", "/// What follows a record of version 1 to make it one of this version: nulls."]
    lines += ["#[rustfmt::skip]", f"pub const LACKING: [u8; RECORD_BYTES - FIRST_BYTES] = [{lacking}];"]
    for name, values in _texts():
        lines += ["", f"pub const {name}: [&str; {len(values)}] = [", *(f'    "{value}",' for value in values), "];"]
    return "\n".join(lines) + "\n"


def go() -> str:
    """Text of layout.go: what the features of items stored as JSON need."""
    lines = [f"// Code generated: {_ORIGIN} DO NOT EDIT.", "", "package main", "", "const ("]
    lines += _aligned([(_camel(name), str(value)) for name, value in _numbers() if name in _OF_GO])
    lines += [")", "", "var categories = [categoryCount]string{", *(f'\t"{name}",' for name in record.CATEGORIES), "}"]
    return "\n".join(lines) + "\n"


# Which text belongs into which file.
WRITTEN: Final[dict[Path, Callable[[], str]]] = {
    _NATIVE / "core" / "src" / "layout.rs": rust,
    _NATIVE / "go" / "layout.go": go,
}


def _numbers() -> Iterator[tuple[str, int]]:
    yield "VERSION", record.VERSION
    yield "HEADER_BYTES", record.HEADER_BYTES
    yield "RECORD_BYTES", record.RECORD_BYTES
    # A record of version 1 ends here; the fields behind it are null.
    yield "FIRST_BYTES", record.VERSION_BYTES[1]
    yield "TITLE_WORDS", record.TITLE_WORDS
    yield "TOPIC_COUNT", record.TOPICS
    yield "CITY_COUNT", record.CITY_COUNT
    yield "CATEGORY_COUNT", len(record.CATEGORIES)
    yield "USER_BYTES", user.USER_BYTES
    yield "MOST_WORDS", user.MOST_WORDS
    yield "MOST_SELLERS", user.MOST_SELLERS
    yield "FEATURE_COUNT", len(FEATURES)
    yield "MOST", user.MOST
    yield "MOST_ACTIVE", user.MOST_ACTIVE
    yield "SLOTS", items.SLOTS
    yield "SHARDS", items.SHARDS
    yield "BUCKETS", items.BUCKETS
    yield "KEPT_S", history.KEPT_S
    yield "NOW_S", catalogue.NOW_S
    yield "BOOST_FACTOR", rules.BOOST
    yield "VARIED", rules.VARIED
    yield "WINDOW", rules.WINDOW
    yield "MOST_OF_SELLER", rules.MOST_OF_SELLER
    yield "MOST_OF_CATEGORY", rules.MOST_OF_CATEGORY
    yield "ASIDE", rules._ASIDE
    for field in record.FIELDS:
        if field.scale != 1:
            yield f"{field.name.upper()}_SCALE", field.scale


def _lacking() -> bytes:
    oldest = record.HEADER_BYTES * b"\1" + bytes(record.VERSION_BYTES[1] - record.HEADER_BYTES)
    return record.fitted(oldest)[len(oldest) :]


def _texts() -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "CATEGORIES", record.CATEGORIES
    yield "FEATURES", FEATURES


def _camel(name: str) -> str:
    first, *words = name.lower().split("_")
    return first + "".join(word.capitalize() for word in words)


def _aligned(pairs: list[tuple[str, str]]) -> list[str]:
    """As gofmt writes a block of constants."""
    width = max(len(name) for name, _ in pairs)
    return [f"\t{name:<{width}} = {value}" for name, value in pairs]


def main() -> None:
    """Rewrites both files."""
    for path, text in WRITTEN.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text())


if __name__ == "__main__":
    main()
