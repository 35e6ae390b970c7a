"""Which commands there are: ours in groups; other distributions bring theirs as entry points `greenlane.commands`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from greenlane.cli.command import Command
from greenlane.errors import SettingsError

__all__ = ["DISTRIBUTIONS", "GROUPS", "OLD", "installed", "known", "missing"]

_ENTRY_POINTS: Final = "greenlane.commands"

#: The commands as `greenlane --help` groups them.
GROUPS: Final[Mapping[str, Sequence[str]]] = {
    "Diagnose": ("record", "report", "top"),
    "Run": ("serve", "celery", "export"),
    "Operate": ("status", "mode", "breaker", "divert", "dead-letters", "config", "doctor"),
    "Plan": ("plan",),
    "Lab": ("lab", "demo"),
    "Help": ("explain",),
}
#: The modules of the guest's own commands.
_OURS: Final[Mapping[str, str]] = {
    "record": "greenlane.cli.record",
    "status": "greenlane.cli.status",
    "mode": "greenlane.cli.mode",
    "config": "greenlane.cli.config",
    "doctor": "greenlane.cli.doctor",
    "explain": "greenlane.cli.explain",
}
_OTHERS: Final[Mapping[str, Sequence[str]]] = {
    "greenlane-tools": ("report", "top", "plan", "lab", "demo"),
    "greenlane-serve": ("serve", "export"),
    "greenlane-work": ("celery", "breaker", "divert", "dead-letters"),
}
#: The distribution that brings each of our commands.
DISTRIBUTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_OURS, "greenlane"),
    **{name: distribution for distribution, names in _OTHERS.items() for name in names},
}
#: Names of earlier releases, and what is run in their place.
OLD: Final[Mapping[str, Sequence[str]]] = {
    "work": ("celery",),
    "check": ("doctor",),
    "version": ("--version",),
}


@functools.cache
def _found() -> dict[str, EntryPoint]:
    ours = {name: EntryPoint(name, f"{module}:COMMAND", _ENTRY_POINTS) for name, module in _OURS.items()}
    return {entry.name: entry for entry in entry_points(group=_ENTRY_POINTS) if entry.name not in OLD} | ours


def known() -> Sequence[str]:
    """Names of all commands: ours, then what other distributions bring."""
    ours = [name for names in GROUPS.values() for name in names]
    return list(dict.fromkeys([*ours, *sorted(_found())]))


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
