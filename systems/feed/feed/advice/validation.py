"""Validation on and off: items that another service sent, with their types checked by somebody or nobody."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import orjson

from feed.candidates import named

from .payload import Payload
from .row import Row, costs, rows
from .schemas import pydantic_model, struct


def validation(payload: Payload, repetitions: int) -> list[Row]:
    """Of the items, and of the models' answers, which the service checks."""
    return [*_items(payload, repetitions), *_answers(payload, repetitions)]


def _items(payload: Payload, repetitions: int) -> list[Row]:
    readers = item_readers()

    def reading(read: Callable[[bytes], Any]) -> Callable[[], Any]:
        return lambda: [read(value) for value in payload.json]

    found = costs({name: reading(read) for name, read in readers.items()}, repetitions)
    notes = {
        "off: json": "wrong types are found later, or never",
        "off: orjson": "wrong types are found later, or never",
        "msgspec": "types are checked while they are parsed, so turning it off saves nothing",
    }
    return rows("validation", f"read {len(payload.json):,} items from JSON", found, notes=notes)


def item_readers() -> dict[str, Callable[[bytes], Any]]:
    """From one item's JSON to what the service goes on with; those that validate raise ValueError for a wrong type."""
    model = pydantic_model()
    return {
        "pydantic": model.model_validate_json,
        "off: json": json.loads,
        "off: orjson": orjson.loads,
        "msgspec": msgspec.json.Decoder(struct(as_array=False)).decode,
    }


class Named(msgspec.Struct):
    """A model's answer."""

    ids: list[int]
    scores: list[float]

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.scores):
            raise ValueError("reading a model's answer: expected as many scores as ids")


def _answers(payload: Payload, repetitions: int) -> list[Row]:
    bodies: Sequence[bytes] = [orjson.dumps({"ids": ids, "scores": scores}) for ids, scores in payload.named.values()]
    typed = msgspec.json.Decoder(Named).decode
    found = costs(
        {
            "by hand": lambda: [named(body) for body in bodies],
            "off: json": lambda: [json.loads(body) for body in bodies],
            "msgspec": lambda: [typed(body) for body in bodies],
        },
        repetitions,
    )
    return rows("validation", "read 4 models' answers", found)
