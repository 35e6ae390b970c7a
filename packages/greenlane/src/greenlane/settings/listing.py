"""Settings as rows: for the documentation, and for `greenlane config`; those of all installed distributions."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import make_dataclass
from importlib.metadata import entry_points
from typing import Final

from greenlane.errors import without_passwords
from greenlane.settings.lane import LANE_KEYS
from greenlane.settings.parts import FIRST, PARTS, table_of
from greenlane.settings.setting import Setting
from greenlane.settings.settings import Settings, settings_of

__all__ = ["DEFAULT", "GROUP", "by_distribution", "describe", "effective", "example", "installed"]

#: Entry points of this group are the subclasses of `Settings`, by the name of their distribution.
GROUP: Final = "greenlane.settings"
#: The origin of a value that was not set.
DEFAULT: Final = "default"


@functools.cache
def by_distribution() -> Mapping[str, type[Settings]]:
    """The settings of each installed distribution, the guest's first."""
    others = {entry.name: entry.load() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}
    return {"greenlane": Settings, **others}


@functools.cache
def installed() -> type[Settings]:
    """The settings of all installed distributions together."""
    _guest, *others = by_distribution().values()
    return make_dataclass("InstalledSettings", [], bases=tuple(reversed(others)), frozen=True) if others else Settings


def effective(settings: Settings) -> list[dict[str, object]]:
    """One row a setting: `setting`, `value`, `unit`, `origin`; lanes as `lanes.NAME.KEY`. Passwords are left out."""
    rows = []
    for setting in settings_of(type(settings)).values():
        rows.append(_effective_row(setting.name, getattr(settings, setting.name), setting, settings.origins))
    for lane in settings.lanes:
        for key in LANE_KEYS.values():
            rows.append(_effective_row(f"lanes.{lane.name}.{key.name}", getattr(lane, key.name), key, settings.origins))
    return rows


def describe() -> list[dict[str, object]]:
    """One row a setting of each installed distribution, for documentation.

    Keys: `distribution`, `setting`, `kind`, `default`, `unit`, `rule`, `what`, `reason`, `environment`, `flag`. Lane
    keys follow as `lanes.NAME.KEY`; they have neither environment name nor flag.
    """
    guest = settings_of(Settings)
    rows = []
    for distribution, kind in by_distribution().items():
        for setting in settings_of(kind).values():
            if kind is Settings or setting.name not in guest:
                rows.append(_described_row(distribution, setting.name, setting, setting.env, setting.flag))
    return rows + [_described_row("greenlane", f"lanes.NAME.{key.name}", key, "", "") for key in LANE_KEYS.values()]


def example() -> str:
    """A `greenlane.toml` with every setting of the installed distributions, commented out, at its default."""
    parts: dict[str, list[str]] = {"first": [], "": [], **{part: [] for part in PARTS}}
    for row in describe():
        name = str(row["setting"])
        if name.startswith("lanes."):
            continue
        table = table_of(name, str(row["distribution"]))
        short = name.removeprefix(PARTS.get(table, ""))
        # A key of a table cannot stand at the top: those of the first ten keep their flat names.
        first = name in FIRST
        parts["first" if first else table].append(
            f"# {row['what']} Expected: {row['rule']}.\n# {name if first else short} = {_toml(row['default'])}\n"
        )
    text = "# What people set first.\n\n" + "\n".join(parts.pop("first")) + "\n# The others of every process.\n\n"
    text += "\n".join(parts.pop(""))
    text += "".join(f"\n[{part}]\n\n" + "\n".join(lines) for part, lines in parts.items() if lines)
    return text + '\n# [lanes.search]\n# match = ["GET /search*"]\n# deadline_ms = 500'


def _toml(value: object) -> str:
    return "{}" if value == {} else json.dumps(value, ensure_ascii=False)


def _described_row(distribution: str, name: str, setting: Setting, env: str, flag: str) -> dict[str, object]:
    """A row of the documentation."""
    return {
        "distribution": distribution,
        "setting": name,
        "kind": setting.kind,
        "default": _plain(setting.default),
        "unit": setting.unit,
        "rule": setting.rule,
        "what": setting.what,
        "reason": setting.reason,
        "environment": env,
        "flag": flag,
    }


def _effective_row(name: str, value: object, setting: Setting, origins: Mapping[str, str]) -> dict[str, object]:
    """A row of the effective settings: its value, and where that came from."""
    shown = without_passwords(value) if isinstance(value, str) else _plain(value)
    return {"setting": name, "value": shown, "unit": setting.unit, "origin": origins.get(name, DEFAULT)}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
