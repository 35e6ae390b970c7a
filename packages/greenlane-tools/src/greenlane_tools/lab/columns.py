"""A table for people: a heading and a line a row, words to the left, numbers to the right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["columns"]


def columns(
    rows: Sequence[Mapping[str, Any]], shown: Sequence[tuple[str, str]], cell: Callable[[str, Any], str]
) -> str:
    """The rows as text.

    Args:
        shown: heading and field of each column.
        cell: how a field's value is written, by the field's name.
    """
    lines = [[title for title, _ in shown], *([cell(name, row[name]) for _, name in shown] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    words = [any(isinstance(row[name], str) for row in rows) for _, name in shown]
    return "\n".join(
        "  ".join(
            text.ljust(width) if is_word else text.rjust(width)
            for text, width, is_word in zip(line, widths, words, strict=True)
        ).rstrip()
        for line in lines
    )
