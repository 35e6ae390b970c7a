"""Greenlane's pools for Celery's own worker: `greenlane work APP`, or `celery -A APP worker -P custom`.

For the second, CELERY_CUSTOM_WORKER_POOL names one of them: `greenlane_work.celery:Pool` (threads) or
`greenlane_work.celery:GreenPool` (greenlets of gevent).
"""

from greenlane_work.worker.pool import GreenPool, Pool

__all__ = ["GreenPool", "Pool"]
