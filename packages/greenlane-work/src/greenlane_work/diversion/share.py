"""Which orders are diverted: those whose point lies under the share. Where a share is kept, and who has seen it.

An order's point is a hash of the flow and the order's key (or its merchant's), evenly between 0 and 1, and never
changes. Raising the share therefore only adds orders, lowering it only takes some back, and every producer decides
alike without communication.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from greenlane.errors import DiversionError

__all__ = [
    "KEEP_S", "Change", "NotAShare", "Share", "SharePlace", "Sighting", "checked_name", "decoded", "encoded",
    "parsed_share", "point",
]  # fmt: skip

#: A queue's name in every broker, and a file's.
_NAME: Final = r"[A-Za-z0-9_.:-]{1,100}"
_POINTS: Final = 2**64
#: A producer that has said nothing for this long is gone. Three times what is between two words of it.
KEEP_S: Final = 15.0


@dataclass(frozen=True)
class Share:
    """How much of a queue's orders is diverted."""

    #: The queue that they came to so far.
    flow: str
    #: The other queue; "" = none was ever named.
    to: str = ""
    #: 0 to 1.
    share_frac: float = 0.0
    #: user@host; "" = not set.
    set_by: str = ""
    #: Seconds since the epoch, by the clock of the process that set it.
    set_s: float = 0.0

    #: Grows with each change: milliseconds since the epoch, or more; 0 = not set.
    revision: int = 0

    def queue(self, key: str) -> str:
        """The queue of an order with this key."""
        return self.to if self.to and point(self.flow, key) < self.share_frac else self.flow


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


class SharePlace(Protocol):
    """A file for one machine (`folder`), Redis for many (`redis`).

    Methods raise DiversionUnreadable (what is stored is not ours) and DiversionError (it cannot be reached).
    """

    #: For messages: without a password.
    url: str

    def read(self, flow: str) -> Share:
        """The share of a flow; one of revision 0 if none was set."""

    def change(self, flow: str, change: Change) -> Share:
        """Replace a flow's share by what `change` makes of it, alone; gives the new one."""

    def say(self, flow: str, sighting: Sighting) -> None:
        """A producer's word on what it has seen."""

    def sightings(self, flow: str) -> list[Sighting]:
        """The last word of each producer that has said something within 15 s."""


def point(flow: str, key: str) -> float:
    """Where an order lies, from 0 to under 1. Cost: about a microsecond."""
    hashed = hashlib.blake2b(f"{flow}\0{key}".encode(errors="surrogatepass"), digest_size=8).digest()
    # 53 bits, which a float holds exactly: the largest is still under 1.
    return (int.from_bytes(hashed) >> 11) / (_POINTS >> 11)


def parsed_share(text: str) -> float:
    """Give the share of `30%`, `0.3`, `0` or `100%`. Raises DiversionError; a bare `30` or `1` could mean either."""
    word = text.strip()
    if re.fullmatch(r"[0-9]{1,3}(\.[0-9]+)?\s*%", word):
        share = float(word.rstrip("% ")) / 100
    elif re.fullmatch(r"0|[01]\.[0-9]+", word):
        share = float(word)
    else:
        raise _wrong_share(text)
    if share > 1:
        raise _wrong_share(text)
    return share


def checked_name(what: str, name: str) -> str:
    """Give the name of a queue back. Raises DiversionError."""
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
        rule = "1 to 100 of the characters A-Z a-z 0-9 _ . : -"
        hint = "name the queue as the broker does"
        raise DiversionError("divert orders", name=what, value=name, rule=rule, hint=hint)
    return name


class NotAShare(ValueError):
    """A text that is no share."""


def encoded(share: Share) -> str:
    """Give a share's text."""
    return json.dumps(asdict(share))


def decoded(text: str | bytes, flow: str) -> Share:
    """Give the share of a text, of this flow. Raises NotAShare."""
    try:
        share = Share(**json.loads(text))
        if share.flow != flow:
            raise ValueError(f"it is of the flow {share.flow!r}")
        frac, revision = share.share_frac, share.revision
        if isinstance(frac, bool) or not isinstance(frac, int | float) or not 0 <= frac <= 1:
            raise ValueError(f"share_frac={frac!r}")
        if isinstance(revision, bool) or not isinstance(revision, int) or not isinstance(share.set_s, int | float):
            raise ValueError(f"revision={revision!r}, set_s={share.set_s!r}")
        if not isinstance(share.set_by, str) or not (share.to == "" or re.fullmatch(_NAME, share.to)):
            raise ValueError(f"to={share.to!r}, set_by={share.set_by!r}")
    except (TypeError, ValueError, RecursionError) as error:
        raise NotAShare(str(error)) from None
    return share


def _wrong_share(text: str) -> DiversionError:
    plain = re.fullmatch(r"[0-9]{1,3}", text.strip())
    hint = f"write {text.strip()}% for that many of a hundred" if plain else "write 30% or 0.3"
    return DiversionError("divert orders", name="share", value=text, rule="a share from 0% to 100%", hint=hint)
