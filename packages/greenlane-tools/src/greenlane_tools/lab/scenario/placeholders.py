"""What braces in commands and environments stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

__all__ = ["ARGUMENTS", "MEANINGS", "OF_SERVICE", "filled", "filled_command", "used"]

#: A part of a command that is exactly this becomes the contender's arguments, however many.
ARGUMENTS: Final = "{arguments}"
MEANINGS: Final[Mapping[str, str]] = {
    "python": "the interpreter that runs the lab",
    "address": "where this process shall listen: `127.0.0.1:PORT`, or `unix:PATH`",
    "port": "its port",
    "unix": "the path of its Unix socket",
    "folder": "the temporary folder with the files of all services: where it runs",
    "own": "a temporary folder of this contender alone, with a short path",
    "iterations_per_ms": "how many iterations of `work` make 1 ms of CPU",
    "arguments": "the contender's arguments; in a command, as a part by itself",
}
#: Of a service that stands above in the file: `{NAME.address}` and `{NAME.port}`.
OF_SERVICE: Final = ("address", "port")
_BRACES: Final = re.compile(r"\{([A-Za-z0-9_.-]+)\}")


def used(texts: Iterable[str]) -> Iterator[str]:
    """Names in braces."""
    for text in texts:
        yield from _BRACES.findall(text)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with values in place of the names that `values` has."""
    return _BRACES.sub(lambda found: values.get(found[1], found[0]), text)


def filled_command(command: Iterable[str], arguments: Iterable[str], values: Mapping[str, str]) -> list[str]:
    """A command with its arguments and values in place."""
    parts = [one for part in command for one in (arguments if part == ARGUMENTS else (part,))]
    return [filled(part, values) for part in parts]
