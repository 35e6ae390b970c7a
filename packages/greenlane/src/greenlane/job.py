"""What an application says of its own jobs: which are heavy, which are light, which compute without the GIL.

The marks are optional: Greenlane learns the weight of each phase from its CPU bursts. A mark is for what cannot be
learned in time (the first, very expensive request after a start) or must not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["WEIGHT_MARK", "heavy", "light", "native"]

_View = TypeVar("_View", bound=Callable[..., object])

#: The attribute that a mark leaves on a view function; the route probes read it.
WEIGHT_MARK: Final = "__greenlane_weight__"


def heavy(view: _View) -> _View:
    """Mark a view as heavy: its phases need a permit from the first request on, except very short ones.

    Example:
        >>> @heavy
        ... def quote():
        ...     return "12.50"
    """
    setattr(view, WEIGHT_MARK, "heavy")
    return view


def light(view: _View) -> _View:
    """Mark a view as light: its phases never wait for a permit."""
    setattr(view, WEIGHT_MARK, "light")
    return view


def native(view: _View) -> _View:
    """Mark a view as native: its phases compute without the GIL (numpy, Pillow), never wait, and use all cores."""
    setattr(view, WEIGHT_MARK, "native")
    return view
