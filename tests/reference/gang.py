"""The twin of `greenlane_policy::gang`: which core a gang keeps to, the obvious way.

Differs from the Rust rule in nothing; times are looks, one a second, and glances in between.
"""

from __future__ import annotations


class Choice:
    def __init__(self, always: bool) -> None:
        self.always = always
        self.core: int | None = None
        self.busy = self.quiet = self.crowded = self.lasted = 0
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
            self._leave(foreign, best)
        return self.core

    def glance(self, cores: list[tuple[int, float, float, bool]]) -> int | None:
        foreign = {number: frac for number, frac, _, _ in cores}
        here = foreign.get(self.core, 0.0) if self.core is not None else 0.0
        self.crowded = self.crowded + 1 if here >= 0.5 else 0
        if self.core is not None and (self.crowded >= 2 or here >= 0.65):
            mine = [number for number, _, _, free in cores if free or number == self.core]
            self._leave(foreign, min(mine, key=lambda number: foreign[number]))
        return self.core

    def _leave(self, foreign: dict[int, float], best: int) -> None:
        if foreign[best] + 0.2 <= foreign[self.core] and (foreign[best] <= 0.15 or self.always):
            self._gather(best)
        elif not self.always:
            self.disband()

    def _gather(self, core: int) -> None:
        if self.core is None:
            self.lasted = 0
        self.core, self.busy, self.quiet, self.crowded = core, 0, 0, 0

    def disband(self) -> None:
        if self.core is not None:
            self.wait = 10 if self.lasted >= 60 else min(max(2 * self.wait, 10), 64)
            self.core, self.busy, self.quiet, self.crowded = None, 0, 0, 0
