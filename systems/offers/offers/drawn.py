"""Numbers that follow from names alone: every caller that asks with the same id gets the same, in Python and in Go.

`drawn(a, b)` is FNV-1a (64 bits) of "a|b", finished by MurmurHash3's mixer: FNV's own high bits hardly depend on the
last letters.
"""

from __future__ import annotations

from typing import Final

__all__ = ["drawn", "uniform"]

_MASK: Final = (1 << 64) - 1
_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3


def drawn(what: str, name: str) -> int:
    """A whole number below 2^64. Cost: some 5 µs."""
    state = _OFFSET
    for byte in f"{what}|{name}".encode():
        state = (state ^ byte) * _PRIME & _MASK
    state = (state ^ state >> 33) * 0xFF51AFD7ED558CCD & _MASK
    state = (state ^ state >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return state ^ state >> 33


def uniform(what: str, name: str) -> float:
    """A number between 0 and 1, both excluded."""
    return ((drawn(what, name) >> 11) + 0.5) / 2**53
