"""The settings from everywhere at once: the file, then the environment, then flags; a later one wins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from greenlane.errors import SettingsError
from greenlane.settings.lane import LANE_KEYS, Lane
from greenlane.settings.settings import SETTINGS, Settings
from greenlane.settings.sources.environment import from_environment
from greenlane.settings.sources.file import from_file
from greenlane.settings.sources.flags import from_flags

__all__ = ["load"]


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    file: Path | None = None,
) -> Settings:
    """The effective settings: defaults < file < environment < flags.

    Args:
        flags: setting's name -> value, typed or as text; None = not given. `lanes` takes {lane: {key: value}}.
        environ: variables; `GREENLANE_CONFIG` names the file ("" = read none).
        file: the settings file; None = as `GREENLANE_CONFIG` says, else `greenlane.toml` in the current directory if
            there is one.

    Raises:
        SettingsError: anything unknown, malformed, out of range or unreadable.

    Cost: reads at most one file of up to 1 MiB.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    sources = (
        from_file(file, environ, SETTINGS, LANE_KEYS),
        from_environment(environ, SETTINGS),
        from_flags(flags or {}, SETTINGS, LANE_KEYS),
    )
    for source in sources:
        for name, value, origin in source:
            values[name] = value
            origins[name] = origin
    if "lanes" in values:
        origin = origins.pop("lanes")
        for name, keys in values["lanes"].items():
            origins.update({f"lanes.{name}.{key}": origin for key in keys})
        values["lanes"] = tuple(_lane(name, keys, origin) for name, keys in values["lanes"].items())
    return Settings(**values, origins=origins)


def _lane(name: str, keys: Mapping[str, Any], origin: str) -> Lane:
    try:
        return Lane(name, **keys)
    except SettingsError as error:
        attempted = f"read the {origin}"
        raise SettingsError(error.setting, error.value, error.rule, error.hint, attempted=attempted) from None
