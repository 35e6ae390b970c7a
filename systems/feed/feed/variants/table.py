"""Every variant by its name, in the order of the ladder. A variant is a module here with `ranking(given)`."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from .ranking import Given, Ranking

VARIANTS: Final = (
    "inline", "pool", "split", "shared-memory", "native-go", "greenlane",
)  # fmt: skip


def ranking(name: str, given: Given) -> Ranking:
    """The ranking path of a variant; its module is imported now, so that no variant pays for another's imports."""
    if name not in VARIANTS:
        raise ValueError(f"choosing a variant: name={name!r}, expected one of {', '.join(VARIANTS)}")
    made: Ranking = import_module(f".{name.replace('-', '_')}", __package__).ranking(given)
    return made
