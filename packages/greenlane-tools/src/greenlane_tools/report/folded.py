"""Collapsed stacks: `route;frame;frame ns`, one a line, as flame graph programs read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from greenlane_tools.reader.rows import Stack

__all__ = ["folded_lines", "stacks_of"]


def stacks_of(stacks: Iterable[Stack]) -> Iterator[tuple[str, int]]:
    """(culprit and its frames, ns)."""
    for row in stacks:
        culprit = row.culprit.replace(";", ":")
        yield f"{culprit};{row.stack}" if row.stack else culprit, row.ns


def folded_lines(stacks: Iterable[Stack]) -> list[str]:
    """Equal stacks added up, in order of their text."""
    total: dict[str, int] = {}
    for stack, ns in stacks_of(stacks):
        line = " ".join(stack.split("\n"))
        total[line] = total.get(line, 0) + ns
    return [f"{stack} {ns}" for stack, ns in sorted(total.items()) if ns > 0]
