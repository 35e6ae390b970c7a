"""Changing a share, and seeing that every producer has seen it."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from greenlane.errors import DiversionError
from greenlane_work.diversion.share import Share, SharePlace, Sighting, checked_name

__all__ = ["Effect", "set_share", "wait_seen"]

_LOOK_S = 0.05


@dataclass(frozen=True)
class Effect:
    """How a change came to the producers."""

    #: From the change to the last producer's sight of it, by this process's clock; when some have not seen it, so far.
    seconds: float
    seen: Sequence[Sighting]
    #: Those that live and have not seen it.
    unseen: Sequence[Sighting]


def set_share(place: SharePlace, flow: str, share_frac: float, to: str = "") -> Share:
    """Set a flow's share; it is there when this returns.

    Args:
        place: where it lies.
        flow: the queue whose orders are diverted.
        share_frac: 0 to 1.
        to: the queue of the diverted ones; "" = the one that was named last.

    Raises:
        DiversionError: no queue was ever named, or it is the flow itself; the place cannot be reached.
    """
    checked_name("flow", flow)
    if to == flow or (to and checked_name("to", to) != to):
        raise DiversionError("divert orders", name="to", value=to, rule="another queue than the orders' own")

    def change(before: Share) -> Share:
        found = to or before.to
        if share_frac and not found:
            hint = "name the new worker's queue: --to greenlane"
            raise DiversionError("divert orders", name="to", value="", rule="a queue that orders can go to", hint=hint)
        by = f"{_user()}@{socket.gethostname()}"
        now_s = time.time()
        # Where the share was forgotten, what producers have seen of it must not be newer than what follows.
        revision = max(before.revision + 1, int(now_s * 1000))
        return replace(before, to=found, share_frac=share_frac, set_by=by, set_s=now_s, revision=revision)

    return place.change(flow, change)


def wait_seen(
    place: SharePlace, share: Share, within_s: float, *, clock: Callable[[], float] = time.monotonic
) -> Effect:
    """Wait until every producer that lives has seen a change. Blocks; a greenlet under `monkey.patch_all()` lets go."""
    began = clock()
    looks = 0
    while True:
        producers = [each for each in place.sightings(share.flow) if not _gone(each)]
        unseen = [each for each in producers if each.revision < share.revision]
        waited = clock() - began
        # Twice: a folder that is listed while a producer renames its file in place may leave it out.
        looks = 0 if unseen else looks + 1
        if looks == 2 or waited >= within_s:
            return Effect(waited, [each for each in producers if each not in unseen], unseen)
        time.sleep(_LOOK_S)


def _gone(sighting: Sighting) -> bool:
    """Whether it is a process of this machine that has ended."""
    host, _, pid = sighting.producer.rpartition(":")
    return host == socket.gethostname() and not os.path.exists(f"/proc/{pid}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user that has no name
        return str(os.getuid())
