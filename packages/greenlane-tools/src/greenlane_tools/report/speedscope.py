"""Culprits' stacks as a file for <https://www.speedscope.app>: one profile of all, and one of each culprit.

Format: <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources>, plain JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, TextIO

from greenlane_tools.reader.rows import Stack
from greenlane_tools.report.culprits import frames, stacks_of

__all__ = ["write_speedscope"]

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_ALL: Final = "all culprits: ns that others waited"


def write_speedscope(stacks: Iterable[Stack], name: str, out: TextIO) -> None:
    """Write what others waited for, by stack; a culprit is the outermost frame."""
    numbers: dict[str, int] = {}
    profiles: dict[str, list[tuple[list[int], int]]] = {_ALL: []}
    for stack, ns in stacks_of(stacks):
        if ns > 0:
            texts = stack.split(";")
            row = ([numbers.setdefault(text, len(numbers)) for text in texts], ns)
            profiles[_ALL].append(row)
            profiles.setdefault(texts[0], []).append(row)
    document = {
        "$schema": _SCHEMA,
        "name": name,
        "exporter": "greenlane",
        "shared": {"frames": [_frame(text) for text in numbers]},
        "profiles": [
            {
                "type": "sampled",
                "name": profile,
                "unit": "nanoseconds",
                "startValue": 0,
                "endValue": sum(ns for _, ns in rows),
                "samples": [sample for sample, _ in rows],
                "weights": [ns for _, ns in rows],
            }
            for profile, rows in profiles.items()
        ],
    }
    json.dump(document, out)


def _frame(text: str) -> dict[str, object]:
    """A culprit has no line."""
    found = frames(text)
    if not found or not found[0].file:
        return {"name": text}
    return {"name": found[0].function, "file": found[0].file, "line": found[0].line}
