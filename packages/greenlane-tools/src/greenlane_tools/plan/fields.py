"""Fields of tables that people or other programs wrote: read with their types and ranges, else a PlanError.

A field that nobody reads is an error too, with the name that was probably meant: a typo must not become a default.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from greenlane.errors import PlanError
from greenlane.settings.refusal import nearest

_MOST_SHOWN: Final = 60


class Fields:
    """A table and where it stands.

    Args:
        table: as JSON or TOML gave it.
        where: its name in messages: "" = the whole file, "routes[2]".
        attempted: what is being done.
    """

    def __init__(self, table: object, where: str = "", attempted: str = "read the profile") -> None:
        self._where = where
        self._attempted = attempted
        self._asked: list[str] = []
        if not isinstance(table, Mapping) or not all(isinstance(name, str) for name in table):
            raise self.error("", table, "a table of names and values")
        self._table: Mapping[str, object] = table

    @property
    def name(self) -> str:
        """Where it stands."""
        return self._where

    def error(self, name: str, value: object, rule: str, hint: str = "") -> PlanError:
        """What is wrong with a field; "" = with the table."""
        shown = value if isinstance(value, str | int | float | bool | None) else _short(value)
        at = ".".join(filter(None, (self._where, name))) or "profile"
        return PlanError(self._attempted, name=at, value=shown, rule=rule, hint=hint)

    def has(self, name: str) -> bool:
        """Whether it stands there and is not null."""
        return self._of(name) is not None

    def text(self, name: str, default: str | None = None, *, among: tuple[str, ...] = ()) -> str:
        """A text, of `among` unless that is empty; no default = it must be there."""
        value = self._of(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and (not among or value in among):
            return value
        rule = f"one of {', '.join(among)}" if among else "a text"
        raise self.error(name, value, rule, _absent(value) or nearest(str(value), among))

    def number(
        self, name: str, default: float | None = None, *, least: float = 0.0, most: float = 1e15, open_: bool = False
    ) -> float:
        """A finite number of at least `least` (`open_`: above it); no default = it must be there."""
        value = self._of(name)
        if value is None and default is not None:
            return default
        return self._checked(name, value, least, most, open_)

    def perhaps(self, name: str, *, least: float = 0.0, most: float = 1e15, open_: bool = False) -> float | None:
        """A number, or None where it is null or missing: not known."""
        value = self._of(name)
        return None if value is None else self._checked(name, value, least, most, open_)

    def whole(self, name: str, default: int | None = None, *, least: int = 0, most: int = 10**15) -> int:
        """A whole number."""
        value = self._of(name)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise self.error(name, value, f"a whole number of at least {least}", _absent(value))

    def tables(self, name: str) -> Iterator[Fields]:
        """Tables of a list; none where it is missing."""
        for number, each in enumerate(self.items(name)):
            yield Fields(each, self._under(f"{name}[{number}]"), self._attempted)

    def table(self, name: str) -> Fields:
        """A table; empty where it is missing."""
        value = self._of(name)
        return Fields({} if value is None else value, self._under(name), self._attempted)

    def named(self, name: str) -> Iterator[tuple[str, Fields]]:
        """A table of tables, by their names; none where it is missing."""
        of = self.table(name)
        for key in of._table:
            yield key, of.table(key)

    def items(self, name: str) -> list[object]:
        """A list; empty where it is missing."""
        value = self._of(name)
        if value is None:
            return []
        if isinstance(value, list):
            return value
        raise self.error(name, value, "a list")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        found = self.items(name)
        for each in found:
            if not isinstance(each, str):
                raise self.error(name, each, "a list of texts")
        return tuple(str(each) for each in found)

    def end(self) -> None:
        """Refuses what nobody asked for. Call it when all fields are read."""
        for name, value in self._table.items():
            if name not in self._asked:
                hint = nearest(name, self._asked) or f"it knows {', '.join(sorted(set(self._asked)))}"
                raise self.error(name, value, "a field of the format", hint)

    def _of(self, name: str) -> object:
        self._asked.append(name)
        return self._table.get(name)

    def _under(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def _checked(self, name: str, value: object, least: float, most: float, open_: bool) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            number = float(value)
            if (number > least if open_ else number >= least) and number <= most:
                return number
        bound = "above" if open_ else "of at least"
        raise self.error(name, value, f"a number {bound} {least:g}", _absent(value))


def _absent(value: object) -> str:
    return "write it: it has no default" if value is None else ""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
