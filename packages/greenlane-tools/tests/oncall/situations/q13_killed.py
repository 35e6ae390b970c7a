"""gunicorn -k gevent --timeout 3: an export computes for longer than the arbiter waits for a heartbeat."""

import time

import gevent
from flask import Flask

app = Flask(__name__)


@app.get("/ping")
def ping():
    gevent.sleep(0.1)
    return "pong"


@app.get("/export")
def export():
    return {"rows": collect_rows(30)}


def collect_rows(seconds):
    end = time.thread_time() + seconds
    rows = 0
    while time.thread_time() < end:
        rows += 1
    return rows
