"""One trouble of a process, and since when it lasts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["Lasting", "Trouble"]

_S: Final = 1_000_000_000


@dataclass(frozen=True)
class Trouble:
    """What a look finds. `{for_s}` in `text` is for how long it has been so."""

    #: Which one it is, from one look to the next.
    key: object
    text: str
    #: When it began, monotonic ns; 0 = with the first look that found it.
    since_ns: int = 0
    #: Whether only a restart of the process ends it once it lasts long.
    hangs: bool = False
    #: It is a share of the time until now: it counts from its first look on.
    counts_now: bool = False


class Lasting:
    """Troubles that have been there for some time.

    Args:
        after_ns: from when on one counts.
        hung_ns: from when on one that hangs the process is there to stay.
    """

    def __init__(self, after_ns: int, hung_ns: int) -> None:
        self._after_ns, self._hung_ns = after_ns, hung_ns
        self._since_ns: dict[object, int] = {}

    def take(self, found: Iterable[Trouble], now_ns: int) -> tuple[list[str], bool]:
        """Texts of those that count, in their order, and whether the process is beyond help."""
        since_ns: dict[object, int] = {}
        texts, hung = [], False
        for trouble in found:
            began_ns = trouble.since_ns or self._since_ns.get(trouble.key, now_ns)
            since_ns[trouble.key] = began_ns
            for_ns = now_ns - began_ns
            if trouble.counts_now or for_ns >= self._after_ns:
                texts.append(trouble.text.replace("{for_s}", f"{for_ns / _S:.1f} s"))
            if trouble.hangs:  # a pool that has been full for long may hang only since now
                mark = "hangs", trouble.key
                since_ns[mark] = self._since_ns.get(mark, trouble.since_ns or now_ns)
                hung = hung or now_ns - since_ns[mark] >= self._hung_ns
        self._since_ns = since_ns
        return texts, hung
