"""Another JSON library: what comes from the store and the models, what goes to a service or to the caller."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson

from .payload import Payload
from .row import Row, costs, rows

_DECODERS: Mapping[str, Callable[[bytes], Any]] = {
    "json": json.loads,
    "orjson": orjson.loads,
    "msgspec": msgspec.json.Decoder().decode,
}
_ENCODERS: Mapping[str, Callable[[Any], bytes]] = {
    "json": lambda value: json.dumps(value, separators=(",", ":")).encode(),
    "orjson": orjson.dumps,
    "msgspec": msgspec.json.Encoder().encode,
}
_NOTES = {"orjson": "same dicts, same GIL", "msgspec": "same dicts, same GIL"}


def json_libraries(payload: Payload, repetitions: int) -> list[Row]:
    """Decoding and encoding of everything that a request has as JSON."""
    answers = [orjson.dumps({"ids": ids, "scores": scores}) for ids, scores in payload.named.values()]
    feed = {"user": payload.user_id, "ids": payload.ids, "degraded": []}
    count = f"{len(payload.items):,}"
    return [
        *_decoded(f"decode {count} items", payload.json, repetitions),
        *_decoded("decode 4 models' answers", answers, repetitions),
        *_encoded(f"encode {count} items for another service", payload.items, repetitions),
        *_encoded(f"encode the answer: {count} ids", feed, repetitions),
    ]


def _decoded(stage: str, values: list[bytes], repetitions: int) -> list[Row]:
    def reading(decode: Callable[[bytes], Any]) -> Callable[[], Any]:
        return lambda: [decode(value) for value in values]

    found = costs({name: reading(decode) for name, decode in _DECODERS.items()}, repetitions)
    return rows("json", stage, found, sizes=dict.fromkeys(found, sum(map(len, values))), notes=_NOTES)


def _encoded(stage: str, value: Any, repetitions: int) -> list[Row]:
    def writing(encode: Callable[[Any], bytes]) -> Callable[[], Any]:
        return lambda: encode(value)

    found = costs({name: writing(encode) for name, encode in _ENCODERS.items()}, repetitions)
    sizes = {name: len(encode(value)) for name, encode in _ENCODERS.items()}
    return rows("json", stage, found, sizes=sizes)
