"""The twin of `greenlane_policy::gang`: which core a gang keeps to, the obvious way.

Differs from the Rust rule in nothing; times are looks, one a second.
"""

from __future__ import annotations


class Choice:
    def __init__(self, always: bool) -> None:
        self.always = always
        self.core: int | None = None
        self.busy = self.quiet = self.lasted = 0
        self.wait = 1

    def look(self, cores: list[tuple[int, float, float, bool]]) -> int | None:
        foreign = {number: frac for number, frac, _, _ in cores}
        ours = {number: frac for number, _, frac, _ in cores}
        mine = [number for number, _, _, free in cores if free or number == self.core]
        if not mine and self.always:
            mine = list(foreign)
        if not mine:
            self.disband()
            return self.core
        best = min(mine, key=lambda number: foreign[number])
        if self.core not in foreign:
            self.quiet = self.quiet + 1 if foreign[best] <= 0.15 else 0
            if self.always or self.quiet >= self.wait:
                self._gather(best)
            return self.core
        here = foreign[self.core]
        is_busy = here >= 0.35 or (here >= 0.15 and here + ours[self.core] >= 0.9)
        self.busy = self.busy + 1 if is_busy else 0
        self.lasted += 1
        if self.busy >= 2 or here >= 0.5:
            if foreign[best] + 0.2 <= here and (foreign[best] <= 0.15 or self.always):
                self._gather(best)
            elif not self.always:
                self.disband()
        return self.core

    def _gather(self, core: int) -> None:
        if self.core is None:
            self.lasted = 0
        self.core, self.busy, self.quiet = core, 0, 0

    def disband(self) -> None:
        if self.core is not None:
            self.wait = 3 if self.lasted >= 60 else min(max(2 * self.wait, 3), 64)
            self.core, self.busy, self.quiet = None, 0, 0
