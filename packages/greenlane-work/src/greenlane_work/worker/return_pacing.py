"""When returned orders of a key may come back: no faster than its upstream takes them.

Without it 72,000 orders of an upstream that is down come back every 80 s, are received, find no room and are published
again, nine hundred times a second. Here each gets a time of its own after the one before it. They come back twice as
fast as the key's calls have lately succeeded, and `_LEAST_PER_S` at least, or nobody would find out that it is well.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

__all__ = ["ReturnPacing"]

#: Of a key that is down, and of each worker. Arbitrary: a twentieth of what a worker publishes in a second.
_LEAST_PER_S: Final = 20.0
#: Of the successes that are counted: of this window and the one before.
_WINDOW_S: Final = 10.0
#: No order waits for longer than this without being looked at. Arbitrary.
_MOST_S: Final = 3600.0


class _Key:
    __slots__ = ("before", "began_s", "count", "next_s")

    def __init__(self) -> None:
        # When the next one may come back, and the successes of two windows; seconds of the same clock.
        self.next_s = 0.0
        self.began_s = 0.0
        self.count = self.before = 0


class ReturnPacing:
    """Used by the owner of the channel only. `keys_most`: keys that are remembered, those used last."""

    def __init__(self, keys_most: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._keys: OrderedDict[str, _Key] = OrderedDict()
        self._keys_most = keys_most
        self._clock_s = clock_s

    def succeeded(self, key: str) -> None:
        """Count a call that ended well; only of keys that have returned orders."""
        known = self._keys.get(key)
        if known is not None:
            self._roll(known, self._clock_s())
            known.count += 1

    def after_s(self, key: str) -> float:
        """Give in how many seconds the order of this key that is being returned may come back."""
        now_s = self._clock_s()
        known = self._keys.setdefault(key, _Key())
        self._keys.move_to_end(key)
        if len(self._keys) > self._keys_most:
            self._keys.popitem(last=False)
        self._roll(known, now_s)
        lately_per_s = (known.before + known.count) / (_WINDOW_S + now_s - known.began_s)
        known.next_s = max(now_s, known.next_s) + 1 / max(_LEAST_PER_S, 2 * lately_per_s)
        return min(known.next_s - now_s, _MOST_S)

    def _roll(self, known: _Key, now_s: float) -> None:
        passed_s = now_s - known.began_s
        if passed_s >= _WINDOW_S:
            known.before = known.count if passed_s < 2 * _WINDOW_S else 0
            known.began_s, known.count = now_s, 0
