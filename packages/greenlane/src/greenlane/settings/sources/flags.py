"""Settings from flags of the command line and keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping

from greenlane.setting import checked, known, parsed
from greenlane.settings.sources.given import LIST_THEM, Declared, Given
from greenlane.settings.sources.lane_tables import lanes_of

__all__ = ["from_flags"]


def from_flags(flags: Mapping[str, object], settings: Declared, lane_keys: Declared) -> Given:
    """Flags and keyword arguments: typed or as text; None = not given."""
    for name, value in flags.items():
        if value is None:
            continue
        if name == "lanes":
            yield name, lanes_of(value, lane_keys, lambda table, key: "read the flags"), "flag lanes"
            continue
        setting = known(settings, str(name), value=value, attempted="read the flags", hint=LIST_THEM)
        attempted = f"read the flag {setting.flag}"
        typed = parsed(setting, value) if isinstance(value, str) else value
        yield setting.name, checked(setting, typed, attempted=attempted), f"flag {setting.flag}"
