"""Greenlane's pools for Celery's own worker: `greenlane work APP`, or `celery -A APP worker -P custom`.

For the second, CELERY_CUSTOM_WORKER_POOL names one of them: `greenlane.hosts.celery:Pool` (threads) or
`greenlane.hosts.celery:GreenPool` (greenlets of gevent).
"""

from greenlane.hosts.celery.pool import GreenPool, Pool

__all__ = ["GreenPool", "Pool"]
