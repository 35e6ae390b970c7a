"""The item's schema for those who want one, each made from record.FIELDS."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import pydantic
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from feed.record import FIELDS, Field, Kind

_TEXTS = (Kind.WORDS, Kind.CATEGORY, Kind.CITY)


def python_type(field: Field) -> Any:
    """Of a field's value in an item."""
    found: Any = int if field.scale == 1 else float
    if field.kind in _TEXTS:
        found = str
    elif field.kind is Kind.FLAG:
        found = bool
    elif field.kind is Kind.TOPICS:
        found = list[int]
    return found | None if field.nullable else found


@cache
def struct(*, as_array: bool) -> type[msgspec.Struct]:
    """An item as a msgspec Struct, outside of the garbage collector's sight; with names or as an array."""
    members = [(field.name, python_type(field)) for field in FIELDS]
    return msgspec.defstruct("Item", members, array_like=as_array, gc=False)


@cache
def pydantic_model() -> type[pydantic.BaseModel]:
    """An item as a pydantic model."""
    members: dict[str, Any] = {field.name: (python_type(field), ...) for field in FIELDS}
    return pydantic.create_model("Item", **members)


@cache
def protobuf_message() -> Any:
    """An item as a Protobuf message class (proto2: it knows what is absent), without a compiler."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="feed/item.proto", package="feed", syntax="proto2")
    message = file.message_type.add(name="Item")
    for number, field in enumerate(FIELDS, 1):
        proto = message.field.add(name=field.name, number=number, label=kinds.LABEL_OPTIONAL)
        proto.type = _protobuf_kind(field)
        if field.kind is Kind.TOPICS:
            proto.label = kinds.LABEL_REPEATED
            proto.options.packed = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("feed.Item"))


def _protobuf_kind(field: Field) -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    if field.kind in _TEXTS:
        return kinds.TYPE_STRING
    if field.kind is Kind.FLAG:
        return kinds.TYPE_BOOL
    if field.kind is Kind.TOPICS:
        return kinds.TYPE_SINT32
    return kinds.TYPE_UINT32 if field.scale == 1 else kinds.TYPE_DOUBLE


@cache
def arrow_schema() -> pa.Schema:
    """Items as columns."""
    return pa.schema([pa.field(field.name, _arrow_type(field), nullable=field.nullable) for field in FIELDS])


def _arrow_type(field: Field) -> pa.DataType:
    if field.kind in (Kind.CATEGORY, Kind.CITY):
        return pa.dictionary(pa.int32(), pa.string())
    if field.kind is Kind.WORDS:
        return pa.string()
    if field.kind is Kind.FLAG:
        return pa.bool_()
    if field.kind is Kind.TOPICS:
        return pa.list_(pa.int8())
    return pa.uint32() if field.scale == 1 else pa.float64()
