"""Celery: a worker reserves short tasks behind its long one, while another worker is idle."""

import os
import time

from celery import Celery

app = Celery(broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
app.conf.worker_prefetch_multiplier = 8


@app.task(name="export")
def export():
    time.sleep(1.5)  # here


@app.task(name="mail")
def mail():
    time.sleep(0.01)
