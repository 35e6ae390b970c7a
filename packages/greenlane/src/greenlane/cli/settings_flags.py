"""The flags of the settings, made from their declarations."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from greenlane.settings import SETTINGS, Settings, load

__all__ = ["declare_settings", "settings_of"]

# Keeps the settings' own names (mode, limit …) apart from a command's arguments.
_PREFIX: Final = "setting."


def declare_settings(parser: argparse.ArgumentParser, names: Iterable[str] = tuple(SETTINGS)) -> None:
    """Adds `--config` and one flag for each of the named settings."""
    group = parser.add_argument_group("settings", "greenlane.toml < GREENLANE_* < these flags")
    group.add_argument("--config", metavar="FILE", help="settings file (default: greenlane.toml here, if there is one)")
    for name in names:
        setting = SETTINGS[name]
        default = ",".join(setting.default) if isinstance(setting.default, tuple) else setting.default
        text = f"{setting.what} Default: {default if default != '' else chr(39) * 2}{' ' + setting.unit}".rstrip()
        group.add_argument(
            setting.flag, dest=_PREFIX + name, metavar=setting.kind.upper(), help=text.replace("%", "%%")
        )


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The effective settings under the flags that were given; SettingsError when they are wrong."""
    given = {name.removeprefix(_PREFIX): value for name, value in vars(arguments).items() if name.startswith(_PREFIX)}
    return load(given, file=Path(arguments.config) if arguments.config is not None else None)
