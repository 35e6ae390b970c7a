"""Where a share lies, so that all producers see it: a file for one machine, Redis for many."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

from greenlane_work.diversion.share import Share

__all__ = ["KEEP_S", "Change", "Place", "Sighting"]

#: A producer that has said nothing for so long is gone. Three times what is between two words of it.
KEEP_S = 15.0

Change = Callable[[Share], Share]


@dataclass(frozen=True)
class Sighting:
    """What a producer has seen."""

    #: host:pid of the process.
    producer: str
    revision: int
    share_frac: float
    #: When it saw this revision first; seconds since the epoch, by its clock.
    seen_s: float
    #: When it said so last.
    said_s: float
    #: Why it does not see the share now; "" = it does.
    trouble: str = ""

    def text(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str | bytes) -> Sighting | None:
        """From what is stored; None = something else."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError, RecursionError):
            return None


class Place(Protocol):
    """Methods raise DiversionUnreadable (what is there is none of ours) and DiversionError (it cannot be reached)."""

    #: For messages: without a password.
    url: str

    def read(self, flow: str) -> Share:
        """The share of a flow; one of revision 0 where nobody has set any."""

    def change(self, flow: str, change: Change) -> Share:
        """Replace a flow's share by what `change` makes of it, alone; gives the new one."""

    def say(self, flow: str, sighting: Sighting) -> None:
        """A producer's word on what it has seen."""

    def sightings(self, flow: str) -> list[Sighting]:
        """The last word of each producer that has said something within 15 s."""
