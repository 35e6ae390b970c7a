"""A Celery worker that loses no order, and that one slow upstream cannot stop.

For tasks and producers; each name is imported when it is first used:

- `current`, `Current`: the order that the calling task works on
- `NotSent`: raised by a task when nothing has reached the upstream
- `once`: an order called once, for the tasks of other workers
- `divert`: the queue of an order, for producers

`greenlane_work.store` holds the store of orders, `greenlane_work.diversion` moves a share of them to another queue,
`greenlane_work.celery` names the pools, and `greenlane_work.worker` is what a worker runs.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenlane_work.called_once import once
    from greenlane_work.diversion.opening import divert
    from greenlane_work.order import Current, NotSent, current

__all__ = ["Current", "NotSent", "current", "divert", "once"]

_LAZY = {
    "Current": "greenlane_work.order",
    "NotSent": "greenlane_work.order",
    "current": "greenlane_work.order",
    "divert": "greenlane_work.diversion.opening",
    "once": "greenlane_work.called_once",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
    return value
