"""How a merchant behaves: its latency, and what goes wrong how often. Changed live by `POST /law`."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Self

_Z99: Final = 2.3263478740408408
_SHARES: Final = ("error_frac", "lie_frac", "hang_frac", "reset_frac")


class Turn(Enum):
    """What happens to one call."""

    WELL = "well"
    #: Nothing is done, and an error is answered.
    ERROR = "error"
    #: It is done, and an error is answered.
    LIE = "lie"
    #: It is done, and nothing is ever answered.
    HANG = "hang"
    #: By a coin it is done or not; the connection is reset in place of an answer.
    RESET = "reset"


@dataclass(frozen=True)
class Law:
    """A merchant's behaviour. Shares are of calls, and add up to at most 1; the rest goes well.

    Args:
        median_ms: half of the answers take less (lognormal); 0 = immediately.
        p99_ms: one of a hundred takes more; equal to median_ms = all take the same.
        error_frac: answered 500, nothing done.
        lie_frac: answered 500 although it is done.
        hang_frac: done, never answered.
        reset_frac: the connection is reset, half of them done.
        idempotent: a second call with the same order id has no second effect.
        askable: it tells whether it knows an order id.
    """

    median_ms: float = 300.0
    p99_ms: float = 300.0
    error_frac: float = 0.0
    lie_frac: float = 0.0
    hang_frac: float = 0.0
    reset_frac: float = 0.0
    idempotent: bool = False
    askable: bool = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            is_switch = field.type == "bool"
            if isinstance(value, bool) != is_switch or not isinstance(value, int | float) or not math.isfinite(value):
                rule = "true or false" if is_switch else "a number"
                raise ValueError(f"set a law: {field.name}={value!r}, expected {rule}")
        if not 0 <= self.median_ms <= self.p99_ms:
            rule = "0 <= median_ms <= p99_ms"
            raise ValueError(f"set a law: median_ms={self.median_ms!r}, p99_ms={self.p99_ms!r}, expected {rule}")
        shares = [getattr(self, name) for name in _SHARES]
        if min(shares) < 0 or sum(shares) > 1:
            raise ValueError(f"set a law: {', '.join(_SHARES)}={shares!r}, expected none below 0, together at most 1")

    def changed(self, to: Mapping[str, Any]) -> Self:
        """This law with some of its parts changed; a median alone takes a shorter p99 with it.

        Raises:
            ValueError: a part that no law has, or a value that it cannot have.
        """
        known = {field.name for field in dataclasses.fields(self)}
        if unknown := sorted(set(to) - known):
            raise ValueError(f"set a law: {unknown[0]}={to[unknown[0]]!r}, expected one of {', '.join(sorted(known))}")
        given = dict(to)
        if "p99_ms" not in given and isinstance(given.get("median_ms"), int | float):
            given["p99_ms"] = given["median_ms"] if self.p99_ms == self.median_ms else max(
                self.p99_ms, given["median_ms"]
            )  # fmt: skip
        return dataclasses.replace(self, **given)

    def delay_s(self, source: random.Random) -> float:
        """One draw."""
        if self.median_ms == self.p99_ms or self.median_ms == 0:
            return self.median_ms / 1e3
        spread = math.log(self.p99_ms / self.median_ms) / _Z99
        return self.median_ms / 1e3 * math.exp(source.gauss(0, spread))

    def turn(self, source: random.Random) -> Turn:
        """One draw."""
        left = source.random()
        for share, turn in zip(_SHARES, (Turn.ERROR, Turn.LIE, Turn.HANG, Turn.RESET), strict=True):
            left -= getattr(self, share)
            if left < 0:
                return turn
        return Turn.WELL
