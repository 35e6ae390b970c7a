"""greenlane.toml of the pods of one group: what of the settings concerns it, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from greenlane.settings import LANE_KEYS, SETTINGS, Lane, Settings
from greenlane_serve.layout import SHARED, Layout

__all__ = ["pod_settings"]

# What the pod says itself, or what names a place of another machine.
_NOT_OURS: Final = frozenset({"bind", "workers", "control_dir", "record_folder", "learned_file"})


def pod_settings(settings: Settings, layout: Layout, group: str, port: int) -> str:
    """The text. A pod has the workers that the group has on one machine; a hard lane has its pods to itself."""
    lanes = {lane.name: layout.group_of(lane) for lane in layout.lanes}
    own = [lane for lane in settings.lanes if lanes[lane.name] == group]
    if group != SHARED:
        own = [replace(lane, kind="soft", processes=0) for lane in own]
    lines = [f'bind = [":{port}"]', f"workers = {layout.groups[group]}"]
    lines += _changed(settings, {name: key.default for name, key in SETTINGS.items() if name not in _NOT_OURS})
    for lane in own:
        lines += ["", f"[lanes.{json.dumps(lane.name)}]"]
        lines += _changed(lane, {name: key.default for name, key in LANE_KEYS.items()})
    return "\n".join(lines) + "\n"


def _changed(of: Settings | Lane, defaults: Mapping[str, object]) -> Iterator[str]:
    for name, default in defaults.items():
        value = getattr(of, name)
        if value != default:
            yield f"{name} = {_written(value)}"


def _written(value: object) -> str:
    """A value as TOML: its strings, numbers and lists are those of JSON."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_written(one)}" for key, one in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)
