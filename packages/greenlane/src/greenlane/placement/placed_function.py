"""A function that its owner has placed: what it is called, and what was said of where it runs.

Who says it, the strongest first: the table `placements` of the settings (the operator's word, for functions by name),
the argument of `@placed`, a mark (`@heavy` = never where the caller is, `@light` = always there), the setting
`placement`. `auto` = nobody has: it is measured.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

from greenlane.errors import PlacementError
from greenlane.job import WEIGHT_MARK
from greenlane.placement.functions import ROUTE_PREFIX, name_of, plain, refuse_unplaceable
from greenlane.settings.refusal import nearest

__all__ = ["AUTO", "PLACEMENTS", "PlacedFunction", "PlacementName"]

PlacementName = Literal["auto", "inline", "thread", "process", "cluster"]
PLACEMENTS: Final[tuple[str, ...]] = get_args(PlacementName)
AUTO: Final = "auto"


class PlacedFunction:
    """What `@placed` decorates, and what its owner has said."""

    __slots__ = ("argument", "fn", "known", "name", "wrapper")

    def __init__(self, fn: Callable[..., Any], placement: str = AUTO, name: str = "") -> None:
        """Take a function.

        Args:
            fn: what runs.
            placement: what the decorator was told.
            name: what it is learned and shown as; "" = its module and qualified name.

        Raises:
            PlacementError: it cannot be placed, or there is no such placement.
        """
        _refuse_misuse(fn, name)
        refuse_unplaceable(fn)
        if placement not in PLACEMENTS:
            raise PlacementError(
                "place a function",
                name="placement",
                value=placement,
                rule="one of " + ", ".join(PLACEMENTS),
                hint=nearest(str(placement), PLACEMENTS) or "leave it out: it is measured",
            )
        self.fn = fn
        self.argument = placement
        self.name = f"{ROUTE_PREFIX}{name}" if name else name_of(fn)
        # What stands for it in its module; marks may have been put on either.
        self.wrapper: object = fn
        # (placement, choice): what a `Placement` knows of it.
        self.known: tuple[object, Any] = (None, None)

    @property
    def mark(self) -> str:
        """Give "heavy", "light" or ""."""
        return str(getattr(self.wrapper, WEIGHT_MARK, "") or getattr(plain(self.fn), WEIGHT_MARK, ""))

    def pin(self, default: str, by_name: Mapping[str, str]) -> str:
        """Give where it was said to run, `auto` if nobody has.

        Args:
            default: the setting `placement`.
            by_name: the setting `placements`: glob on the name -> placement; the first that matches counts.
        """
        name = self.name.removeprefix(ROUTE_PREFIX)
        for glob, placement in by_name.items():
            if fnmatch.fnmatchcase(name, glob):
                return placement
        if self.argument != AUTO:
            return self.argument
        return "inline" if self.mark == "light" else default


def _refuse_misuse(fn: object, name: object) -> None:
    """Say how the decorator is meant to be used, where its arguments show what was meant."""
    if isinstance(fn, str):
        hint = f"write @greenlane.placed(placement={fn!r})" if fn in PLACEMENTS else "write @greenlane.placed"
        raise PlacementError("place a function", name="fn", value=fn, rule="a function", hint=hint)
    if not isinstance(name, str):
        rule = "a text, or nothing for its own name"
        raise PlacementError("place a function", name="name", value=name, rule=rule, hint='write name="quote"')
