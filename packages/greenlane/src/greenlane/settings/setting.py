"""One setting: its declaration, and the checks and messages that follow from it.

Used for the fields of `greenlane.settings.Settings` and of its lanes; nothing here knows any setting by name.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from greenlane.errors import SettingsError

__all__ = ["Attempted", "Pattern", "Setting", "checked", "declarations", "declare", "fitting", "known", "parsed"]

PREFIX: Final = "GREENLANE_"

_TRUE: Final = frozenset({"1", "true", "on"})
_FALSE: Final = frozenset({"0", "false", "off"})

T = TypeVar("T")
Kind = Literal["bool", "int", "float", "choice", "str", "list", "numbers", "table"]
# (regular expression that a text must match as a whole, the rule in words)
Pattern = tuple[str, str]
# What was being done, for a message; a function where saying it costs something.
Attempted = str | Callable[[], str]


@dataclasses.dataclass(frozen=True)
class Setting:
    """One declaration, as the documentation, the flags and the checks see it."""

    name: str
    kind: Kind
    default: object
    # "ms", "s", "frac" (0 to 1), or "" for a plain number or a word.
    unit: str
    # Inclusive; None = no bound (texts).
    low: float | None
    high: float | None
    # Why this default.
    reason: str
    choices: tuple[str, ...]
    # What it is, and what 0 or "" mean.
    what: str
    # For texts: (regular expression, rule in words).
    pattern: Pattern | None = None

    @property
    def env(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.name.upper()

    @property
    def flag(self) -> str:
        """The flag of the command line that sets it; every flag takes a value."""
        return "--" + self.name.replace("_", "-")

    @property
    def rule(self) -> str:
        """What it may be, in words."""
        if self.kind == "bool":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(choice or "''" for choice in self.choices)
        if self.kind in ("int", "float"):
            noun = "a whole number" if self.kind == "int" else "a number"
            unit = f" ({self.unit})" if self.unit else ""
            return f"{noun} from {self.low:.10g} to {self.high:.10g}{unit}"
        if self.kind == "numbers":
            return f"a list of numbers from {self.low:.10g} to {self.high:.10g}, each once"
        words = self.pattern[1] if self.pattern else "a text"
        if self.kind == "table":
            return f"a table of texts, each {words}"
        return f"a list, each {words}" if self.kind == "list" else words

    @property
    def required(self) -> bool:
        """It has no default: the placeholder breaks the rule on purpose."""
        return fitting(self, self.default) is None


def declare(
    default: T,
    what: str,
    *,
    reason: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    pattern: Pattern | None = None,
) -> T:
    """Declares a dataclass field as a setting; the arguments are those of `Setting`.

    A tuple with bounds is a list of numbers, without them one of texts; a mapping is a table of texts.
    """
    declaration = {"unit": unit, "low": low, "high": high, "choices": choices, "pattern": pattern}
    metadata = {**declaration, "what": what, "reason": reason}
    if isinstance(default, Mapping):  # dataclasses refuse it as a default; nobody changes it
        return dataclasses.field(default_factory=lambda: default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def declarations(kind: type[Any]) -> dict[str, Setting]:
    """The settings that a dataclass declares, by name, in its order."""
    found = {}
    for field in dataclasses.fields(kind):
        if field.metadata:
            made = field.default_factory
            default = field.default if made is dataclasses.MISSING else made()
            kind_of = _kind_of(default, field.metadata)
            found[field.name] = Setting(name=field.name, kind=kind_of, default=default, **field.metadata)
    return found


def known(
    among: Mapping[str, Setting], key: str, *, value: object, attempted: Attempted, hint: str, prefix: str = ""
) -> Setting:
    """The declaration of a key; SettingsError with the nearest known key, else with `hint`, when there is none.

    Args:
        among: what there is, by key.
        key: what was written.
        value: what it was set to, for the message.
        attempted: what was being read, for the message.
        hint: what to do when no key is near.
        prefix: stands before the key in the message ("lanes.fast.").
    """
    if key not in among:
        from greenlane.settings.refusal import unknown

        raise unknown(prefix + key, value, key, among, attempted=_describe(attempted), hint=hint)
    return among[key]


def parsed(setting: Setting, text: str) -> object:
    """A text from the environment or the command line as the setting's type.

    Lists are comma separated, tables too: `NAME=text,NAME=text`, each name once. What does not parse stays a text,
    which `checked` then refuses with the rule.
    """
    word = text.strip()
    if setting.kind == "list":
        return tuple(part.strip() for part in word.split(",") if part.strip())
    if setting.kind == "table":
        pairs = [part.partition("=") for part in word.split(",") if part.strip()]
        table = {key.strip(): value.strip() for key, _, value in pairs}
        named_once = all(equals for _, equals, _ in pairs) and "" not in table and len(table) == len(pairs)
        return table if named_once else text
    if setting.kind == "bool":
        return True if word.lower() in _TRUE else False if word.lower() in _FALSE else text
    if setting.kind in ("int", "float"):
        try:
            return int(word) if setting.kind == "int" else float(word)
        except ValueError:
            return text
    return word.lower() if setting.kind == "choice" else word


def checked(setting: Setting, value: object, *, attempted: Attempted = "make the settings", name: str = "") -> object:
    """The value as the type of its setting; SettingsError when it cannot be that."""
    found = fitting(setting, value)
    if found is None:
        raise SettingsError(
            name or setting.name, value, setting.rule, _hint(setting, value), attempted=_describe(attempted)
        )
    return found


def fitting(setting: Setting, value: object) -> object:
    """The value as the type of its setting; None when it cannot be that."""
    return _CHECKS[setting.kind](setting, value)


def _kind_of(default: object, declaration: Mapping[str, Any]) -> Kind:
    if isinstance(default, bool):
        return "bool"
    if isinstance(default, int):
        return "int"
    if isinstance(default, float):
        return "float"
    if isinstance(default, tuple):
        return "list" if declaration["low"] is None else "numbers"
    if isinstance(default, Mapping):
        return "table"
    return "choice" if declaration["choices"] else "str"


def _hint(setting: Setting, value: object) -> str:
    if isinstance(value, str):
        from greenlane.settings.refusal import nearest

        question = nearest(value, filter(None, setting.choices))
        if question:
            return question
        if setting.kind in ("int", "float", "bool") and _checks_as_text(setting, value):
            return "write it without quotes"
        if setting.kind == "list":
            return f"write it as a list: [{value!r}]"
    if setting.kind == "numbers" and isinstance(value, int | float):
        return f"write it as a list: [{value!r}]"
    if setting.kind == "table":
        return 'write it as a table: { NAME = "text" }'
    if setting.required:
        return "it has no default"
    default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
    return f"leave it out for the default, {default!r}" if default != [] else "leave it out for none"


def _checks_as_text(setting: Setting, text: str) -> bool:
    return fitting(setting, parsed(setting, text)) is not None


def _describe(attempted: Attempted) -> str:
    return attempted if isinstance(attempted, str) else attempted()


def _check_bool(setting: Setting, value: object) -> object:
    return value if isinstance(value, bool) else None


def _check_int(setting: Setting, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if _in_range(setting, value) else None


def _check_float(setting: Setting, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if _in_range(setting, value) else None


def _in_range(setting: Setting, value: float) -> bool:
    # nan is in no range; the bounds are finite, so neither are the infinities.
    return setting.low is not None and setting.high is not None and setting.low <= value <= setting.high


def _check_choice(setting: Setting, value: object) -> object:
    return value if isinstance(value, str) and value in setting.choices else None


def _check_str(setting: Setting, value: object) -> object:
    return value if isinstance(value, str) and _matches(setting, value) else None


def _check_list(setting: Setting, value: object) -> object:
    if not isinstance(value, list | tuple):
        return None
    return tuple(value) if all(isinstance(part, str) and _matches(setting, part) for part in value) else None


def _check_numbers(setting: Setting, value: object) -> object:
    if not isinstance(value, list | tuple) or len(set(map(repr, value))) < len(value):
        return None
    numbers = [_check_float(setting, part) for part in value]
    return None if None in numbers else tuple(numbers)


def _check_table(setting: Setting, value: object) -> object:
    if not isinstance(value, Mapping) or not all(isinstance(part, str) for part in value.values()):
        return None
    return dict(value) if all(_matches(setting, part) for part in value.values()) else None


def _matches(setting: Setting, text: str) -> bool:
    return setting.pattern is None or re.fullmatch(setting.pattern[0], text) is not None


_CHECKS: Final[Mapping[Kind, Callable[[Setting, object], object]]] = {
    "bool": _check_bool,
    "int": _check_int,
    "float": _check_float,
    "choice": _check_choice,
    "str": _check_str,
    "list": _check_list,
    "numbers": _check_numbers,
    "table": _check_table,
}
