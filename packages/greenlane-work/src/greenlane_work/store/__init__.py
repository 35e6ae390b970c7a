"""The store of orders: asked before the call whether it has been made, told afterwards how it ended.

- `open_store`, `Store` — by URL: an SQLite file, PostgreSQL, Redis
- `Answer`, `State` — what `begin` gives
- `Record`, `Attempt`, `Outcome` — an order's history
- `Retention` — how long records are kept
- `Operation`, `Kind` — for `Store.submit`
"""

from greenlane_work.store.backend import Retention
from greenlane_work.store.opening import open_store
from greenlane_work.store.record import Attempt, Outcome, Record, State
from greenlane_work.store.rules import Answer, Kind, Operation
from greenlane_work.store.store import Store

__all__ = [
    # by URL
    "Store",
    "open_store",
    "Retention",
    # what it answers
    "Answer",
    "State",
    # an order's history
    "Attempt",
    "Outcome",
    "Record",
    # without waiting
    "Kind",
    "Operation",
]
