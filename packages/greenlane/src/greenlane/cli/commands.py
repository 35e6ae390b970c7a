"""Which commands there are: each distribution brings its own, as entry points of the group `greenlane.commands`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from greenlane.cli.command import Command
from greenlane.errors import SettingsError

__all__ = ["DISTRIBUTIONS", "installed", "known", "missing"]

_GROUP: Final = "greenlane.commands"

#: Our commands in the order of the help, and the distribution that brings each.
DISTRIBUTIONS: Final[Mapping[str, str]] = {
    "record": "greenlane",
    "report": "greenlane-tools",
    "plan": "greenlane-tools",
    "lab": "greenlane-tools",
    "demo": "greenlane-tools",
    "top": "greenlane-tools",
    "serve": "greenlane-serve",
    "export": "greenlane-serve",
    "work": "greenlane-work",
    "celery": "greenlane-work",
    "divert": "greenlane-work",
    "dead-letters": "greenlane-work",
    "config": "greenlane",
    "check": "greenlane",
    "mode": "greenlane",
    "learned": "greenlane",
    "inside": "greenlane",
    "version": "greenlane",
}


@functools.cache
def _found() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=_GROUP)}


def known() -> Sequence[str]:
    """Names of all commands: ours, then what other distributions bring."""
    return list(dict.fromkeys([*DISTRIBUTIONS, *sorted(_found())]))


def missing() -> Sequence[str]:
    """Our commands whose distribution is not installed."""
    return [name for name in DISTRIBUTIONS if name not in _found()]


def installed(name: str) -> Command:
    """Load a command.

    Raises:
        SettingsError: its distribution is not installed.
    """
    entry = _found().get(name)
    if entry is None:
        distribution = DISTRIBUTIONS[name]
        raise SettingsError(
            "COMMAND", name, f"a command that is installed; {name} is part of {distribution}",
            f"pip install {distribution}", attempted="run a command",
        )  # fmt: skip
    command: Command = entry.load()
    return command
