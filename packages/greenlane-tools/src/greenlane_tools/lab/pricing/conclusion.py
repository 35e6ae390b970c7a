"""One sentence about what was seen, with its uncertainty: the same rule whoever wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from greenlane_tools.lab.run.rows import Row, find
from greenlane_tools.lab.scenario.scenario import Level

OURS: Final = "greenlane"
# Two 95 % intervals that do not overlap differ well beyond chance; that they overlap proves nothing, and is said so.
_NOTE: Final = (
    "shares with 95 % Wilson intervals, which take requests as independent and are therefore somewhat too narrow; "
    "p99 values of a run this short are rough"
)


def conclusion(rows: Sequence[Row], light: str, heavy: str | None, repetitions: int) -> str:
    """The sentence about the highest utilisation that was run.

    Args:
        light, heavy: the two endpoints that are spoken of; `heavy` None = only one.
        repetitions: interleaved ones, named in the sentence.
    """
    if not rows:
        return "Nothing was measured."
    utilisation = max(row.utilisation_frac or 0.0 for row in rows)
    cells = [row for row in rows if row.utilisation_frac == utilisation and row.endpoint == light and row.samples]
    if not cells:
        return f"At {utilisation:g} of one worker's CPU no {light} request was offered."
    ours = next((row for row in cells if row.contender == OURS), None)
    rivals = [row for row in cells if row is not ours]
    order = sorted(rivals, key=_share, reverse=True)
    if ours is None:
        said = "; ".join(f"{row.contender} {_percent(row)}" for row in order)
        middle = f"{light} within 500 ms were {said}"
    else:
        middle = f"{_percent(ours)} of {light} were there within 500 ms with {OURS}" + _against(ours, order)
        middle += _p99(rows, ours, light, utilisation) + _p99(rows, ours, heavy, utilisation)
    count = sum(row.samples for row in cells) // len(cells)
    return (
        f"At {utilisation:g} of one worker's CPU {middle} "
        f"({count} {light} a contender in {repetitions} interleaved repetition{'s' * (repetitions != 1)}; {_NOTE})."
    )


def verdict(ours: Row, rival: Row) -> str:
    """How our share stands to a rival's: "more than", "fewer than", or "not told apart from"."""
    if (ours.within_deadline_low_frac or 0) > (rival.within_deadline_high_frac or 0):
        return "more than"
    if (ours.within_deadline_high_frac or 0) < (rival.within_deadline_low_frac or 0):
        return "fewer than"
    return "not told apart from"


def _against(ours: Row, rivals: Sequence[Row]) -> str:
    groups = {
        word: [f"{row.contender} {_percent(row)}" for row in rivals if verdict(ours, row) == word]
        for word in ("fewer than", "not told apart from", "more than")
    }
    return "".join(f", {word} {' and '.join(names)}" for word, names in groups.items() if names)


def _p99(rows: Sequence[Row], ours: Row, endpoint: str | None, utilisation: float) -> str:
    mine = find(rows, ours.contender, endpoint or "", Level(utilisation))
    peers = [
        (row.p99_ms, row.contender)
        for row in rows
        if row.endpoint == endpoint and row.utilisation_frac == utilisation and row.p99_ms and row.contender != OURS
    ]
    if mine is None or mine.p99_ms is None or not peers:
        return ""
    best, name = min(peers)
    return f"; {endpoint} p99 {mine.p99_ms:.0f} ms against {best:.0f} at best elsewhere ({name})"


def _share(row: Row) -> float:
    return row.within_deadline_frac or 0.0


def _percent(row: Row) -> str:
    low, high = (row.within_deadline_low_frac or 0) * 100, (row.within_deadline_high_frac or 0) * 100
    return f"{_share(row) * 100:.1f} % [{low:.1f}-{high:.1f}]"
