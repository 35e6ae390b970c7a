"""TOML to `Scenario`. Everything that can be known without starting anything is checked here."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from greenlane.errors import SettingsError
from greenlane.settings.setting import Setting, checked, declarations, known
from greenlane_tools.lab.scenario import parts, rules
from greenlane_tools.lab.scenario.parts import Bound, Contender, Contrast, Fault, Phase, Service
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["TABLES", "attempt", "read"]

_HINT: Final = "docs/scenarios.md has every key"
#: Tables of a file: (key, field of `Scenario`, what each entry is).
TABLES: Final[tuple[tuple[str, str, type[Any]], ...]] = (
    ("service", "services", Service),
    ("class", "classes", RequestClass),
    ("phase", "phases", Phase),
    ("fault", "faults", Fault),
    ("contender", "contenders", Contender),
)
_CONTRAST: Final = "contrast"

T = TypeVar("T")


def read(path: Path) -> Scenario:
    """The scenario of a file.

    Raises:
        SettingsError: the file, a key or a value is wrong; it names the file, the key, the value and the rule.
    """
    attempted = attempt(path)
    try:
        text = path.read_text("utf-8")
        document = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(
            "file", str(path), f"a file that can be read ({error.strerror})", attempted=attempted
        ) from None
    except ValueError as error:
        raise SettingsError(
            "file", str(path), f"TOML in UTF-8 ({error})", "repair that line", attempted=attempted
        ) from None
    tables = {key for key, _, _ in TABLES} | {_CONTRAST}
    keys = {key: value for key, value in document.items() if key not in tables}
    parts: dict[str, Any] = {}
    for key, field, kind in TABLES:
        parts[field] = _entries(key, kind, document.get(key, []), attempted)
    parts[_CONTRAST] = _made(Contrast, document.get(_CONTRAST, {}), f"{_CONTRAST}.", attempted)
    whole = _made(Scenario, keys, "", attempted, tables)
    expectations = tuple(_bound(number, said, attempted) for number, said in enumerate(whole.bounds))
    made = dataclasses.replace(whole, **parts, expectations=expectations, folder=path.resolve().parent, text=text)
    rules.check(made, path.stem, attempted)
    return made


def attempt(path: Path) -> str:
    """How messages begin."""
    return f"read the scenario {path}"


def _entries(key: str, kind: type[T], given: object, attempted: str) -> tuple[T, ...]:
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise SettingsError(key, given, f"tables [[{key}]]", f"write [[{key}]], with two brackets", attempted=attempted)
    return tuple(
        _made(kind, entry, f"{key}.{_called(entry, number)}.", attempted) for number, entry in enumerate(given)
    )


def _called(entry: Mapping[str, object], number: int) -> str:
    name = entry.get("name")
    return name if isinstance(name, str) and name else str(number + 1)


def _made(kind: type[T], given: object, prefix: str, attempted: str, tables: set[str] | None = None) -> T:
    """An entry of that kind, of keys that exist and values that they can have.

    Args:
        prefix: in front of keys in messages: "class.bikes.".
        tables: names of tables that stand beside the keys, for the nearest one; None = none.
    """
    if not isinstance(given, dict):
        name = prefix.rstrip(".")
        raise SettingsError(name, given, f"a table [{name}]", attempted=attempted)
    among = declarations(kind)
    values = {}
    for key, value in given.items():
        if key not in among:
            _unknown(among, tables or set(), key, value, prefix, attempted)
        values[key] = checked(among[key], value, attempted=attempted, name=prefix + key)
    for key, setting in among.items():
        if setting.required and key not in values:
            raise SettingsError(prefix + key, None, setting.rule, f"say it: {setting.what}", attempted=attempted)
    return kind(**values)


def _unknown(
    among: Mapping[str, Setting], tables: set[str], key: str, value: object, prefix: str, attempted: str
) -> None:
    stand_ins = {name: next(iter(among.values())) for name in tables}
    known({**among, **stand_ins}, key, value=value, attempted=attempted, hint=_HINT, prefix=prefix)


def _bound(number: int, said: str, attempted: str) -> Bound:
    found = parts.parsed(said)
    if found is None:
        hint = f"a FIELD is one of {', '.join(parts.FIELDS)}"
        raise SettingsError(f"bounds[{number}]", said, parts.FORM, hint, attempted=attempted)
    return found
