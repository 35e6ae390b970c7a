"""A Celery app whose orders go to merchants, one of which may be slow."""

import os

from celery import Celery

BROKER = os.environ.get("BROKER_URL", "redis://127.0.0.1:6379/0")
app = Celery("shop", broker=BROKER, backend=BROKER)
app.conf.task_acks_late = True


@app.task
def send(order: str, *, merchant: str) -> str:
    return f"{order} went to {merchant}"
