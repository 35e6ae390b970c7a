"""The flags of the settings, made from their declarations."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from greenlane.settings import Settings, load, settings_of

__all__ = ["declare_settings", "effective_settings"]

# Keeps the settings' own names (mode, limit …) apart from a command's arguments.
_PREFIX: Final = "setting."

_Kind = TypeVar("_Kind", bound=Settings)


def declare_settings(parser: argparse.ArgumentParser, kind: type[Settings], names: Iterable[str] | None = None) -> None:
    """Adds `--config` and one flag for each of the named settings of `kind`; None = all of them."""
    group = parser.add_argument_group("settings", "greenlane.toml < GREENLANE_* < these flags")
    group.add_argument("--config", metavar="FILE", help="settings file (default: greenlane.toml here, if there is one)")
    declared = settings_of(kind)
    for name in declared if names is None else [name for name in names if name in declared]:
        setting = declared[name]
        default = ",".join(setting.default) if isinstance(setting.default, tuple) else setting.default
        text = f"{setting.what} Default: {default if default != '' else chr(39) * 2}{' ' + setting.unit}".rstrip()
        group.add_argument(
            setting.flag, dest=_PREFIX + name, metavar=setting.kind.upper(), help=text.replace("%", "%%")
        )


def effective_settings(arguments: argparse.Namespace, kind: type[_Kind]) -> _Kind:
    """The effective settings under the flags that were given; SettingsError when they are wrong."""
    given: dict[str, Any] = {}
    for name, value in vars(arguments).items():
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX) in settings_of(kind):
            given[name.removeprefix(_PREFIX)] = value
    return load(given, file=Path(arguments.config) if arguments.config is not None else None, kind=kind)
