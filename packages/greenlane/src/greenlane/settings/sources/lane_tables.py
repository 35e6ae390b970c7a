"""The tables `[lanes.NAME]`, from whichever source: each key known and its value within its rule."""

from __future__ import annotations

from collections.abc import Mapping

from greenlane.errors import SettingsError
from greenlane.setting import checked, known
from greenlane.settings.sources.given import Declared, Where

__all__ = ["lanes_of"]


def lanes_of(value: object, lane_keys: Declared, where: Where) -> dict[str, dict[str, object]]:
    """Give {lane: {key: value}}, checked. Raises SettingsError where `where` says."""
    example = 'and match = ["/path*"] below it'
    if not isinstance(value, Mapping):
        hint = f"write [lanes.fast] {example}"
        raise SettingsError("lanes", value, "tables [lanes.NAME]", hint, attempted=where("", "lanes"))
    lanes: dict[str, dict[str, object]] = {}
    for name, table in value.items():
        lane = f"lanes.{name}"
        if not isinstance(table, Mapping):
            hint = f"write [{lane}] {example}"
            raise SettingsError(lane, table, "a table", hint, attempted=where("lanes", str(name)))
        lanes[str(name)] = _lane(lane, table, lane_keys, where)
    return lanes


def _lane(lane: str, table: Mapping[object, object], lane_keys: Declared, where: Where) -> dict[str, object]:
    keys = {}
    hint = f"a lane has {', '.join(lane_keys)}"
    for key, value in table.items():
        attempted = where(lane, str(key))
        setting = known(lane_keys, str(key), value=value, attempted=attempted, hint=hint, prefix=lane + ".")
        keys[setting.name] = checked(setting, value, attempted=attempted, name=f"{lane}.{setting.name}")
    return keys
