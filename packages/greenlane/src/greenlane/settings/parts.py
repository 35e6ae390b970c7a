"""The tables `[serve]`, `[tasks]` and `[record]` of the settings file, and the field's names for some settings.

Loaded when a file has such a table, or a name is none of the declared ones.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Final

from greenlane.errors import SettingsError
from greenlane.settings.refusal import FOREIGN, REMOVED

__all__ = ["ALIASES", "FIRST", "PARTS", "flat", "table_of"]

#: Names that other servers use for the same thing.
ALIASES: Final[Mapping[str, str]] = {
    "max_concurrency": "limit",
    "max_in_flight": "at_once",
    "queue_timeout_s": "queue_s",
    "graceful_timeout_s": "stop_s",
}
#: Tables of the file, and what the flat names of their keys begin with.
PARTS: Final[Mapping[str, str]] = {"serve": "", "tasks": "task_", "record": "record_"}
#: The ten that people set first.
FIRST: Final = (
    "mode", "canary_frac", "control_dir", "threads", "limit", "health_path", "metrics_path", "bind", "workers",
    "task_key",
)  # fmt: skip

_FOREIGN: Final = frozenset(name for names in FOREIGN.values() for name in names)


def flat(found: Mapping[str, object], declared: Container[str]) -> Iterator[tuple[str, object, str, str]]:
    """The keys of a file as (flat name, value, table, key as written); `table` is "" for the top.

    Raises:
        SettingsError: a setting is given twice.
    """
    seen: dict[str, str] = {}
    for table, key, value in _keys(found):
        name = _flat_name(table, key, declared)
        written = f"{table}.{key}" if table else key
        if name in seen:
            hint = f"remove {written} or {seen[name]}"
            raise SettingsError(written, value, f"one value for {name}", hint, attempted="read the settings file")
        seen[name] = written
        yield name, value, table, key


def table_of(name: str, distribution: str) -> str:
    """The table of the example file in which a setting stands; "" = the top."""
    if name.startswith(("record_", "task_")):
        return "record" if name.startswith("record_") else "tasks"
    return "serve" if distribution == "greenlane-serve" else ""


def _keys(found: Mapping[str, object]) -> Iterator[tuple[str, str, object]]:
    for key, value in found.items():
        if key in PARTS and isinstance(value, Mapping):
            yield from ((key, str(inner), each) for inner, each in value.items())
        else:
            yield "", key, value


def _flat_name(table: str, key: str, declared: Container[str]) -> str:
    name = ALIASES.get(key, key)
    longer = PARTS.get(table, "") + name
    return longer if longer in declared or longer in _FOREIGN or longer in REMOVED else name
