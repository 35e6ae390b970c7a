"""Orders that wait for slow upstreams: what a worker knows of them, beside the calls themselves.

- `current`, `Current` — the order that the calling task works on
- `NotSent` — raised by a task that knows: nothing has reached the other side
- `divert` — the queue of an order, for producers: the old worker's, or the new one's
- `once` — an order called once, for the tasks of other workers
- `store` — which orders were called, and how that ended
"""

from greenlane_work.tasks.called_once import once
from greenlane_work.tasks.diversion.opening import divert
from greenlane_work.tasks.order import Current, NotSent, current

__all__ = ["Current", "NotSent", "current", "divert", "once"]
