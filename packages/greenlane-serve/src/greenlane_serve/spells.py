"""When the workers of a group measure: always where that costs little, else in spells. Pure.

Measuring costs a request so many microseconds, whatever it does: nothing beside 5 ms of CPU, a tenth of an empty one.
So it has a budget, a share of the CPU that the workers use, kept like an account. While it is in credit the group
measures, and where requests are few or long it always is; where they are many and short it measures until the account
is empty, and again when a spell can be paid. What is set meanwhile stays as it is.

Two things are known all the time, since they cost the worker nothing: the CPU of its process, and how many requests it
has and has ended. When CPU a request, or how long one stays (Little), is no longer what it was, the next spell begins
at once, on credit. So such a change is seen within seconds; one that shows in neither, such as a rare route among many
requests, at the next spell.

Requests that began before the spell, or end after it, are not counted, and those are the long ones. So a spell goes on
until it is twice as old as the oldest request in progress that began in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Seen", "Spells"]

#: Share of the CPU used that measuring may cost, as a mean over a minute or so.
BUDGET_FRAC: Final = 0.015
#: Requests a second and worker, as a mean over some looks, up to which it has that share of the whole time instead: it
#: costs next to nothing, and too few would be counted.
FREE_PER_S: Final = 200.0
_MEAN: Final = 0.1
#: What measuring costs a request, in CPU s: about; `python -m bench.serve_price` measures what is left of it.
REQUEST_S: Final = 15e-6
#: A spell is no shorter, so that what wants two looks (lane `apart`) gets them, and no longer, whatever is in progress.
SPELL_S: Final = 2.5
MOST_SPELL_S: Final = 30.0
#: CPU s of a worker: the debt at which a spell ends although the number still moves; at which a change begins none;
#: the deepest, where long spells are forgiven; and the most credit, else a quiet night would pay for an hour.
_DEBT_S: Final = -0.15
_CHANGE_DEBT_S: Final = -0.25
_DEEPEST_S: Final = -0.6
_MOST_S: Final = 0.15
#: Looks at which the number has not moved before it counts as settled.
_STEADY: Final = 3
#: What is known without measuring has changed when it is so many times as much, or as little, at two looks in a row.
_DRIFT: Final = 1.5
_DRIFTED: Final = 2
#: Fewer requests at a look, or in progress, say nothing of the means.
_REQUESTS: Final = 50
_IN_PROGRESS: Final = 4.0
#: Weight of the latest look in these means.
_LATEST: Final = 0.5


@dataclass(frozen=True)
class Seen:
    """What is known of a group without measuring, since the last look."""

    # Time between the looks; workers; CPU of their processes.
    span_s: float
    workers: int
    cpu_s: float
    # Requests that have come to them; that they have now; age of the oldest of these that began in the spell.
    requests: int
    in_progress: int
    oldest_s: float = 0.0
    # A worker is new: its code may be.
    renewed: bool = False


@dataclass
class _Means:
    """Of the looks: requests in progress; of a request: CPU and how long it stays."""

    in_progress: float
    cpu_s: float
    stay_s: float

    def followed_by(self, now: _Means) -> _Means:
        return _Means(
            self.in_progress + (now.in_progress - self.in_progress) * _LATEST,
            self.cpu_s + (now.cpu_s - self.cpu_s) * _LATEST,
            self.stay_s + (now.stay_s - self.stay_s) * _LATEST,
        )

    def unlike(self, other: _Means) -> bool:
        some = max(self.in_progress, other.in_progress) >= _IN_PROGRESS
        return _unlike(self.cpu_s, other.cpu_s) or (some and _unlike(self.stay_s, other.stay_s))


class Spells:
    """Of one group. It measures from the first look on."""

    def __init__(self) -> None:
        self.on = True
        self._credit_s = 0.0
        self._per_s = 0.0
        self._spell_s = 0.0
        self._number = 0
        self._steady = 0
        self._means: _Means | None = None
        # As they were when the last spell ended, and looks at which they were otherwise.
        self._known: _Means | None = None
        self._drifted = 0

    def look(self, seen: Seen, number: int) -> bool:
        """Whether the group measures from now on; `number`: what is set by what is measured."""
        per_s = seen.requests / (max(seen.span_s, 1e-3) * max(1, seen.workers))
        self._per_s += (per_s - self._per_s) * _MEAN
        costs_frac = REQUEST_S * per_s
        paid_s = seen.span_s if self._per_s <= FREE_PER_S else seen.cpu_s / max(1, seen.workers)
        self._credit_s += BUDGET_FRAC * paid_s - costs_frac * seen.span_s * self.on
        self._credit_s = max(min(self._credit_s, _MOST_S), _DEEPEST_S)
        self._steady = self._steady + 1 if number == self._number else 0
        self._number = number
        if seen.requests >= _REQUESTS:
            stay_s = seen.in_progress * seen.span_s / seen.requests
            now = _Means(seen.in_progress, seen.cpu_s / seen.requests, stay_s)
            self._means = now if self._means is None else self._means.followed_by(now)
        if self.on:
            self._spell_s += seen.span_s
            self.on = not self._ends(seen.oldest_s)
            if not self.on:
                self._known, self._means, self._drifted = self._means, None, 0
        elif seen.renewed or self._begins(costs_frac):
            self.on, self._spell_s, self._steady = True, 0.0, 0
        return self.on

    def _ends(self, oldest_s: float) -> bool:
        if self._credit_s >= 0 or self._spell_s < min(max(SPELL_S, 2 * oldest_s), MOST_SPELL_S):
            return False
        return self._steady >= _STEADY or self._credit_s <= _DEBT_S

    def _begins(self, costs_frac: float) -> bool:
        if self._credit_s >= min((costs_frac - BUDGET_FRAC) * SPELL_S, _MOST_S):
            return True
        drifts = self._means is not None and self._known is not None and self._means.unlike(self._known)
        self._drifted = self._drifted + 1 if drifts else 0
        return self._drifted >= _DRIFTED and self._credit_s > _CHANGE_DEBT_S


def _unlike(one: float, other: float) -> bool:
    return max(one, other) > _DRIFT * min(one, other)
