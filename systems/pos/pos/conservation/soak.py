"""Which contender meets which fault in a soak, and how many orders each: more than 20,000 in all.

Every fault that Greenlane is to withstand, with threads; with green threads all but those of merchants, who do not know
the difference; other stores and other queues under what strikes them. And a stock worker that acknowledges early, which
must be seen to lose: a balance that does not see that sees nothing.
"""

from __future__ import annotations

from typing import Final

from .contenders import CONTENDERS
from .faults import FAULTS

#: Orders of each cell.
ORDERS: Final = 330
#: At most so many published a second.
RATE_PER_S: Final = 100.0
#: What merchants take when all is well: some 20 orders are on their way when a fault strikes.
LATENCY_MS: Final = 200.0
_WHERE: Final = {
    "store-redis": ("worker-kill", "store-kill", "store-freeze"),
    "store-postgres": ("worker-kill", "store-kill", "store-freeze", "mixed"),
    "quorum": ("worker-kill-ack", "broker-kill", "broker-freeze", "broker-half", "dead-letters", "mixed"),
    "broker-redis": ("worker-kill-last", "worker-freeze", "broker-kill", "broker-freeze", "broker-cut", "mixed"),
}
_ALL: Final = [name for name, fault in FAULTS.items() if not fault.beyond and fault.meets(CONTENDERS["greenlane"])]
CELLS: Final = [
    *((name, "greenlane") for name in _ALL),
    *((name, "greenlane-green") for name in _ALL if not name.startswith("merchant-")),
    # In turn with threads and green threads.
    *(
        (name, f"greenlane{'-green' if number % 2 else ''}-{what}")
        for what, names in _WHERE.items()
        for number, name in enumerate(names)
    ),
    ("worker-kill-last", "gevent-200-early"),
]
