"""Greenlane's pools for Celery's own worker: `greenlane celery APP`, or `celery -A APP worker -P custom`.

For the second, CELERY_CUSTOM_WORKER_POOL names one of them: `greenlane_work.celery:Pool` (threads) or
`greenlane_work.celery:GreenPool` (greenlets of gevent).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greenlane_work.worker.pool import Pool

if TYPE_CHECKING:
    from greenlane_work.worker.green import GreenPool

__all__ = ["GreenPool", "Pool"]


def __getattr__(name: str) -> Any:
    if name == "GreenPool":
        from greenlane_work.worker.green import GreenPool

        return GreenPool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
