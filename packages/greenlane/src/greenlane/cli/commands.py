"""Which commands there are: ours in groups; other distributions bring theirs as entry points `greenlane.commands`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.extra import install
from greenlane.errors import PlatformError

__all__ = ["EXTRAS", "GROUPS", "OLD", "installed", "known", "missing"]

_ENTRY_POINTS: Final = "greenlane.commands"

#: The commands as `greenlane --help` groups them.
GROUPS: Final[Mapping[str, Sequence[str]]] = {
    "Begin": ("try",),
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
#: The extra that brings each of the others.
EXTRAS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("report", "top", "plan", "lab", "demo", "try"), "tools"),
    **dict.fromkeys(("serve", "export"), "serve"),
    **dict.fromkeys(("celery", "breaker", "divert", "dead-letters"), "celery"),
}
#: Names of earlier releases, and what is run in their place.
OLD: Final[Mapping[str, Sequence[str]]] = {
    "work": ("celery",),
    "check": ("doctor",),
    "version": ("--version",),
}


@functools.cache
def _entry_points() -> dict[str, EntryPoint]:
    ours = {name: EntryPoint(name, f"{module}:COMMAND", _ENTRY_POINTS) for name, module in _OURS.items()}
    return {entry.name: entry for entry in entry_points(group=_ENTRY_POINTS) if entry.name not in OLD} | ours


def known() -> Sequence[str]:
    """Names of all commands: ours, then what other distributions bring."""
    ours = [name for names in GROUPS.values() for name in names]
    return list(dict.fromkeys([*ours, *sorted(_entry_points())]))


def missing() -> Sequence[str]:
    """Our commands whose extra is not installed."""
    return [name for name in EXTRAS if name not in _entry_points()]


def installed(name: str) -> Command:
    """Load a command.

    Raises:
        PlatformError: its extra is not installed.
    """
    entry = _entry_points().get(name)
    if entry is None:
        rule = f"a command that is installed; {name} is part of the extra {EXTRAS[name]}"
        raise PlatformError("run a command", name="COMMAND", value=name, rule=rule, hint=install(EXTRAS[name]))
    command: Command = entry.load()
    return command
