"""A setting as a row: for the documentation, and for `greenlane config`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from greenlane.setting import Setting

__all__ = ["DEFAULT", "described_row", "effective_row"]

#: Where the value of a setting came from that nobody has set.
DEFAULT: Final = "default"


def described_row(name: str, setting: Setting, env: str, flag: str) -> dict[str, object]:
    """A row of the documentation."""
    return {
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


def effective_row(name: str, value: object, setting: Setting, origins: Mapping[str, str]) -> dict[str, object]:
    """A row of the effective settings: its value, and where that came from."""
    return {"setting": name, "value": _plain(value), "unit": setting.unit, "origin": origins.get(name, DEFAULT)}


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value
