"""Another format for items: MessagePack, Protobuf, Arrow, fixed records; its size, and what it costs to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgpack
import msgspec
import numpy as np
import pyarrow as pa

from feed import native
from feed.columns import records_of
from feed.features import features_of
from feed.record import FIELDS, Item, Kind, from_json, unpack
from feed.world.catalogue import NOW_S

from .payload import Payload
from .row import Row, costs, rows
from .schemas import arrow_schema, protobuf_message, struct

_COLUMNS = tuple(
    field.name for field in FIELDS if field.kind not in (Kind.WORDS, Kind.CATEGORY, Kind.CITY, Kind.TOPICS)
)


@dataclass(frozen=True)
class Format:
    """A form of many items.

    Args:
        encoded: a value for each item, or one for all.
        objects: back to Python objects, each field of each item read.
    """

    encoded: Sequence[bytes]
    objects: Callable[[], list[Any]]

    @property
    def bytes(self) -> int:
        """Of all items."""
        return sum(map(len, self.encoded))


def formats(payload: Payload, repetitions: int) -> list[Row]:
    """Reading items: as objects, as numpy columns, as the model's features."""
    return [*_objects(payload, repetitions), *_columns(payload, repetitions), *_features(payload, repetitions)]


def item_formats(payload: Payload) -> dict[str, Format]:
    """Every format that gives whole items."""
    items = payload.items
    packer, typed = msgpack.Packer(), msgspec.msgpack.Encoder()
    array = struct(as_array=True)
    arrays = [typed.encode(array(**item)) for item in items]
    packed = [packer.pack(item) for item in items]
    message = protobuf_message()
    messages = [_message(message, item).SerializeToString() for item in items]
    decode = msgspec.msgpack.Decoder(array).decode
    arrow = _arrow(items)
    return {
        "JSON": Format(payload.json, lambda: [json.loads(value) for value in payload.json]),
        "MessagePack": Format(packed, lambda: [msgpack.unpackb(value) for value in packed]),
        "MessagePack, typed arrays": Format(arrays, lambda: [decode(value) for value in arrays]),
        "Protobuf": Format(messages, lambda: [_read(message, value) for value in messages]),
        "Arrow, one batch": Format([arrow], lambda: pa.ipc.open_stream(arrow).read_all().to_pylist()),
        "fixed records": Format(payload.packed, lambda: [unpack(value) for value in payload.packed]),
    }


def _objects(payload: Payload, repetitions: int) -> list[Row]:
    found = item_formats(payload)
    taken = costs({name: one.objects for name, one in found.items()}, repetitions)
    notes = {
        "MessagePack, typed arrays": "objects with attributes in place of dicts; writer and reader share the order",
        "Protobuf": "every field is read, as features do",
        "Arrow, one batch": "made for columns, not for objects",
        "fixed records": "made for columns, not for objects; titles as codes",
    }
    return rows(
        "formats", f"{len(payload.items):,} items to Python objects", taken,
        sizes={name: one.bytes for name, one in found.items()}, notes=notes,
    )  # fmt: skip


def _columns(payload: Payload, repetitions: int) -> list[Row]:
    arrow, packed = _arrow(payload.items), b"".join(payload.packed)
    found = costs(
        {
            "JSON": lambda: _gathered([json.loads(value) for value in payload.json]),
            "Arrow, one batch": lambda: _arrow_columns(arrow),
            "fixed records": lambda: [records_of(b"".join(payload.packed))[name] for name in _COLUMNS],
        },
        repetitions,
    )
    sizes = {"JSON": sum(map(len, payload.json)), "Arrow, one batch": len(arrow), "fixed records": len(packed)}
    return rows("formats", f"{len(payload.items):,} items to numpy columns", found, sizes=sizes)


def _features(payload: Payload, repetitions: int) -> list[Row]:
    user, packed_user = payload.user, payload.user.packed()
    found = costs(
        {
            "JSON, Python": lambda: features_of([from_json(value) for value in payload.json], user, NOW_S),
            "JSON, Rust": lambda: native.features(payload.json, packed_user, NOW_S, form="json").columns,
            "fixed records, Rust": lambda: native.features(payload.packed, packed_user, NOW_S, form="packed").columns,
        },
        repetitions,
    )
    json_bytes = sum(map(len, payload.json))
    sizes = {"JSON, Python": json_bytes, "JSON, Rust": json_bytes, "fixed records, Rust": sum(map(len, payload.packed))}
    return rows("formats", f"{len(payload.items):,} items to 60 features", found, sizes=sizes)


def _message(kind: Any, item: Item) -> Any:
    """Absent fields are nulls."""
    return kind(**{name: value for name, value in item.items() if value is not None})


def _read(kind: Any, value: bytes) -> Item:
    message = kind.FromString(value)
    return {name: get(message) for name, get in _READ}


def _reader(name: str, kind: Kind, nullable: bool) -> Callable[[Any], Any]:
    if kind is Kind.TOPICS:
        return lambda message: list(getattr(message, name)) or None
    if nullable:
        return lambda message: getattr(message, name) if message.HasField(name) else None
    return lambda message: getattr(message, name)


_READ = [(field.name, _reader(field.name, field.kind, field.nullable)) for field in FIELDS]


def _arrow(items: Sequence[Item]) -> bytes:
    batch = pa.RecordBatch.from_pylist(list(items), schema=arrow_schema())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    written: bytes = sink.getvalue().to_pybytes()
    return written


def _arrow_columns(value: bytes) -> list[Any]:
    table = pa.ipc.open_stream(value).read_all()
    return [table.column(name).chunk(0).to_numpy(zero_copy_only=False) for name in _COLUMNS]


def _gathered(items: Sequence[Item]) -> list[Any]:
    return [np.array([item[name] for item in items], np.float64) for name in _COLUMNS]
