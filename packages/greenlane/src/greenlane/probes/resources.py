"""Things with places that jobs wait for, by the object of the program that each is: pools, executors, limiters."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from greenlane._native import Resource

__all__ = ["Describe", "known_resource", "resource_of"]

#: Gives (name, places) of such an object; 0 places = not known, or no limit. May raise.
Describe: TypeAlias = Callable[[Any], tuple[str, int]]

#: By the object's address, which is no other one's while it lives.
_known: Final[dict[int, tuple[weakref.ref[Any], Resource]]] = {}


def resource_of(owner: Any, kind: str, describe: Describe) -> Resource:
    """Give the resource that `owner` is; made when it is first asked for, and forgotten with `owner`.

    Never raises: of what cannot be referred to weakly it is another one each time.
    """
    number = id(owner)
    known = _known.get(number)
    if known is None:
        try:
            alive = weakref.ref(owner, lambda _gone: _known.pop(number, None))
        except TypeError:
            return Resource(kind, lambda: ("", 0))
        known = _known[number] = alive, Resource(kind, lambda: describe(alive()))
    return known[1]


def known_resource(owner: Any) -> Resource | None:
    """Give the resource that `owner` is, if it was asked for before."""
    known = _known.get(id(owner))
    return known and known[1]
