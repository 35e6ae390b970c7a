"""One request for a feed: who asks, until when an answer is of use, what it took, what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from .stages import Stages


@dataclass(frozen=True)
class Problem:
    """Why an answer is less than it could be.

    Args:
        part: history, models, records, ranking, paging.
        reason: what happened.
        effect: what the answer lacks for it.
    """

    part: str
    reason: str
    effect: str


@dataclass
class Job:
    """One request.

    Args:
        user_id: for whom.
        now_s: the present, Unix time.
        deadline_s: seconds from `began_s` within which the answer is of use.
        began_s: on the loop's clock.
        stages: where its time goes.
        problems: what went wrong so far; the answer says it.
        wants_ranked: somebody wants to know `ranked`.
        ranked: the ids before the business rules.
        path_ns: CPU of this process from the first to the last step of the ranking path, the loop's own included. Other
            requests' too: it means something when requests come one at a time.
        bytes_moved: between the service and processes that compute for it, both ways, as far as somebody counts them.
    """

    user_id: int
    now_s: int
    deadline_s: float
    began_s: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    stages: Stages = field(default_factory=Stages)
    problems: list[Problem] = field(default_factory=list)
    wants_ranked: bool = False
    ranked: Sequence[int] = ()
    path_ns: int = 0
    bytes_moved: int = 0

    def until(self, share: float) -> float:
        """The loop's time at which this share of the deadline is used up: for `asyncio.timeout_at`."""
        return self.began_s + share * self.deadline_s

    def degraded(self, part: str, reason: str, effect: str) -> None:
        """Notes a problem."""
        self.problems.append(Problem(part, reason, effect))


def said(error: BaseException) -> str:
    """An error in words that stand in an answer."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}".rstrip(": ").partition("\n")[0][:200]
