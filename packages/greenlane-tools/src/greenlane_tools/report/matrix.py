"""Who made whom wait: rows of blame added up by victim and culprit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from greenlane_tools.reader.rows import Blame

__all__ = ["Matrix", "matrix_of"]


@dataclass(frozen=True)
class Matrix:
    """Victims and culprits, the largest sums first."""

    victims: Sequence[str]
    culprits: Sequence[str]
    cells: Mapping[tuple[str, str], int]
    #: ns of all cells.
    whole_ns: int
    #: ns by victim and by culprit, over all and not only those in the lists.
    by_victim: Mapping[str, int]
    by_culprit: Mapping[str, int]

    def share(self, victim: str, culprit: str) -> float:
        """Of the victim's wait, what the culprit caused; 0 to 1."""
        whole = self.by_victim.get(victim, 0)
        return self.cells.get((victim, culprit), 0) / whole if whole else 0.0

    def cut(self, most: int, rest: str = "others") -> Matrix:
        """At most so many of each; those left out together as `rest`."""
        if len(self.victims) <= most and len(self.culprits) <= most:
            return self
        kept_victims, kept_culprits = set(self.victims[:most]), set(self.culprits[:most])
        cells: dict[tuple[str, str], int] = {}
        for (victim, culprit), ns in self.cells.items():
            key = (victim if victim in kept_victims else rest, culprit if culprit in kept_culprits else rest)
            cells[key] = cells.get(key, 0) + ns
        victims = [*self.victims[:most], *[rest] * (len(self.victims) > most)]
        culprits = [*self.culprits[:most], *[rest] * (len(self.culprits) > most)]
        return Matrix(victims, culprits, cells, self.whole_ns, self.by_victim, self.by_culprit)


def matrix_of(blame: Iterable[Blame]) -> Matrix:
    """The matrix over all kinds of wait."""
    cells: dict[tuple[str, str], int] = {}
    victims: dict[str, int] = {}
    culprits: dict[str, int] = {}
    for row in blame:
        cells[row.victim, row.culprit] = cells.get((row.victim, row.culprit), 0) + row.ns
        victims[row.victim] = victims.get(row.victim, 0) + row.ns
        culprits[row.culprit] = culprits.get(row.culprit, 0) + row.ns
    by_victim = dict(sorted(victims.items(), key=lambda item: (-item[1], item[0])))
    by_culprit = dict(sorted(culprits.items(), key=lambda item: (-item[1], item[0])))
    return Matrix(list(by_victim), list(by_culprit), cells, sum(victims.values()), by_victim, by_culprit)
