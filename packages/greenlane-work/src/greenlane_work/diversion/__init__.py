"""A share of a queue's orders for another worker's queue, changed while producers publish.

- `divert` — the queue of one order, for any producer
- `Router` — the same for Celery's `task_routes`
- `set_share`, `wait_seen` — change it, and wait until all producers have seen that
- `Share` — how much is diverted, and who set it
- `open_place`, `Sighting` — where it lies, and which producers have seen it
"""

from greenlane_work.diversion.effect import Effect, set_share, wait_seen
from greenlane_work.diversion.opening import divert, open_place
from greenlane_work.diversion.router import Router
from greenlane_work.diversion.share import Share, Sighting, parsed_share

__all__ = [
    # for producers
    "Router",
    "divert",
    # for changes
    "Effect",
    "Share",
    "Sighting",
    "open_place",
    "parsed_share",
    "set_share",
    "wait_seen",
]
