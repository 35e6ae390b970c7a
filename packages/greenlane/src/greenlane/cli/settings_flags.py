"""The flags of the settings, made from their declarations."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from greenlane.cli.parser import HelpAll
from greenlane.settings import Settings, load, settings_of
from greenlane.settings.parts import ALIASES

__all__ = ["declare_settings", "effective_settings"]

# Keeps the settings' own names (mode, limit …) apart from a command's arguments.
_PREFIX: Final = "setting."

_Kind = TypeVar("_Kind", bound=Settings)


def declare_settings(
    parser: argparse.ArgumentParser,
    kind: type[Settings],
    names: Iterable[str] | None = None,
    *,
    shown: Collection[str] | None = None,
) -> None:
    """Adds `--config` and one flag for each of the named settings of `kind`; None = all of them.

    Args:
        shown: those that `--help` shows; the others need `--help-all`. None = all.
    """
    declared = settings_of(kind)
    wanted = list(declared) if names is None else [name for name in names if name in declared]
    group = parser.add_argument_group("settings (flags win over GREENLANE_*, which win over the file)")
    group.add_argument("--config", metavar="FILE", help="settings file (default: greenlane.toml, else pyproject.toml)")
    aliases = {name: ["--" + other.replace("_", "-")] for other, name in ALIASES.items()}
    hidden: dict[argparse.Action, str] = {}
    for name in wanted:
        setting = declared[name]
        default = ",".join(setting.default) if isinstance(setting.default, tuple) else setting.default
        text = f"{setting.what} Default: {default if default != '' else chr(39) * 2}{' ' + setting.unit}".rstrip()
        text = text.replace("%", "%%")
        is_shown = shown is None or name in shown
        flag = group.add_argument(
            setting.flag,
            *aliases.get(name, ()),
            dest=_PREFIX + name,
            metavar=setting.kind.upper(),
            help=text if is_shown else argparse.SUPPRESS,
        )
        if not is_shown:
            hidden[flag] = text
    if hidden:
        said = f"show {len(hidden)} more settings and exit"
        group.add_argument("--help-all", action=HelpAll, hidden=hidden, default=argparse.SUPPRESS, help=said)


def effective_settings(arguments: argparse.Namespace, kind: type[_Kind]) -> _Kind:
    """The effective settings under the flags that were given; SettingsError when they are wrong."""
    given: dict[str, Any] = {}
    for name, value in vars(arguments).items():
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) in settings_of(kind):
            given[name.removeprefix(_PREFIX)] = value
    return load(given, file=Path(arguments.config) if arguments.config is not None else None, kind=kind)
