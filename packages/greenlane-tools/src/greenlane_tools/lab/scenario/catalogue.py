"""Scenarios by name: those that ship in the wheel, and those of the checkout."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from greenlane.errors import ArgumentError, SettingsError
from greenlane.settings.refusal import nearest
from greenlane.settings.setting import Setting, checked, declarations
from greenlane.settings.setting import known as known_of
from greenlane_tools.lab.scenario import parts, rules
from greenlane_tools.lab.scenario.parts import Bound, Contender, Contrast, Fault, Phase, RequestClass, Service
from greenlane_tools.lab.scenario.scenario import Scenario

# --- TOML to `Scenario`. Everything that can be known without starting anything is checked here.


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
    known_of({**among, **stand_ins}, key, value=value, attempted=attempted, hint=_HINT, prefix=prefix)


def _bound(number: int, said: str, attempted: str) -> Bound:
    found = parts.parsed(said)
    if found is None:
        hint = f"a FIELD is one of {', '.join(parts.FIELDS)}"
        raise SettingsError(f"bounds[{number}]", said, parts.FORM, hint, attempted=attempted)
    return found


ATTEMPTED: Final = "run a scenario"
_PACKAGE: Final = Path(__file__).resolve().parents[2]
_CHECKOUT: Final = _PACKAGE.parents[3] / "lab" / "scenarios"
SUFFIX: Final = ".toml"
#: Said where only those of the package are found.
NO_CHECKOUT: Final = "other scenarios are in a checkout of Greenlane (lab/scenarios): run them there, or give a file"


def folders() -> list[Path]:
    """Where they are looked for: in the package, then in the checkout that it lies in, if it does."""
    return [_PACKAGE / "demo", *([_CHECKOUT] if _CHECKOUT.is_dir() else [])]


def known() -> dict[str, Path]:
    """All that have a name, by it."""
    return {path.stem: path for folder in folders() for path in sorted(folder.glob(f"*{SUFFIX}"))}


def found(named: str) -> Path:
    """The file of a scenario: a name that is known, or a path.

    Raises:
        SettingsError: there is none.
    """
    path = Path(named)
    if path.suffix == SUFFIX or "/" in named:
        if path.is_file():
            return path
        raise ArgumentError("FILE", named, "a scenario file that exists", "greenlane lab run --list names those that "
                            "are here", attempted=ATTEMPTED)  # fmt: skip
    there = known()
    if named not in there:
        own = "greenlane lab run --list names them; a file of your own ends in .toml"
        hint = nearest(named, there) or (own if _CHECKOUT.is_dir() else NO_CHECKOUT)
        raise ArgumentError("NAME", named, f"one of {', '.join(sorted(there))}", hint, attempted=ATTEMPTED)
    return there[named]


def missing() -> str:
    """What is to be said of scenarios that an installed package lacks; "" = in a checkout nothing is lacking."""
    return "" if _CHECKOUT.is_dir() else NO_CHECKOUT


def questions() -> Iterator[tuple[str, str, Path]]:
    """(name, question, file) of those that are known; a file that cannot be read has its fault for a question."""
    for name, path in sorted(known().items()):
        try:
            asked = str(tomllib.loads(path.read_text("utf-8")).get("question", ""))
        except (OSError, ValueError) as error:
            asked = f"cannot be read: {error}"
        yield name, asked, path


# --- A scenario with other numbers than its file: what flags of a command change.


def adapted(
    scenario: Scenario,
    *,
    seconds: float | None = None,
    repetitions: int | None = None,
    seed: int | None = None,
    utilisations_frac: tuple[float, ...] | None = None,
) -> Scenario:
    """The scenario with these instead; None = as the file says.

    Args:
        seconds: load per cell, over all repetitions. Phases are stretched alike, and the times of faults with them;
            how long a fault lasts stays.
    """
    if repetitions is not None:
        scenario = replace(scenario, repetitions=repetitions)
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    if utilisations_frac is not None:
        scenario = replace(scenario, utilisations_frac=utilisations_frac)
    if seconds is None:
        return scenario
    factor = seconds / scenario.repetitions / scenario.run_seconds()
    return replace(
        scenario,
        seconds=seconds,
        phases=tuple(replace(one, seconds=one.seconds * factor) for one in scenario.phases),
        faults=tuple(replace(one, at_s=one.at_s * factor) for one in scenario.faults),
    )
