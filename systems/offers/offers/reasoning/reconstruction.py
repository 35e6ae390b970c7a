"""Which cells give Request 7 its 70 ms of network that the application measures as 180: the picture is gone.

What the text says: cells of 10 ms; requests that compute, wait for a network, compute; Request 7 waits 70 ms for it and
measures 180; three at once would be nearly perfect. Asked for here: requests that are all alike and all there at the
beginning, in whole cells. That is the simplest picture, not necessarily the one that was drawn.
"""

from __future__ import annotations

import functools
import itertools
from typing import Final, NamedTuple

from greenlane_tools.lab.queueing import knee
from offers.reasoning.cells import Request, run

__all__ = ["CHOSEN", "MEASURED", "NETWORK", "WATCHED", "Candidate", "candidates"]

#: Cells of Request 7: its network, and what it measures.
WATCHED: Final = 7
NETWORK: Final = 7
MEASURED: Final = 18
#: "Three": how many at once fill the CPU, to the nearest whole number.
BEST: Final = 3
_MOST_BURST: Final = 6
_MOST_REQUESTS: Final = 20


class Candidate(NamedTuple):
    """A picture that fits: cells of CPU before and after the network, and so many requests."""

    before: int
    after: int
    requests: int

    @property
    def request(self) -> Request:
        """One of them."""
        return Request((self.before, self.after), (NETWORK,))

    @property
    def knee(self) -> float:
        """So many at once fill the CPU if none ever waits."""
        return knee(self.before + self.after, NETWORK)

    @property
    def fits(self) -> bool:
        """Three at once are the best."""
        return round(self.knee) == BEST


@functools.cache
def candidates() -> tuple[Candidate, ...]:
    """All in which Request 7 measures 180 ms, whatever number at once is best."""
    bursts, requests = range(1, _MOST_BURST + 1), range(WATCHED, _MOST_REQUESTS + 1)
    return tuple(one for one in map(Candidate._make, itertools.product(bursts, bursts, requests)) if _measures(one))


def _measures(one: Candidate) -> bool:
    return run([one.request] * one.requests)[WATCHED - 1].seen == [(NETWORK, MEASURED)]


#: The one that is drawn: as much CPU before as after, ten requests.
CHOSEN: Final = Candidate(2, 2, 10)
