"""celery worker -c 3: twelve orders a second, each of which waits 280 ms for a merchant."""

import os
import time

from celery import Celery

celery = Celery("orders", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])


@celery.task(name="send")
def send():
    """When it was through, by the clock that all processes share."""
    time.sleep(0.28)
    return time.monotonic()
