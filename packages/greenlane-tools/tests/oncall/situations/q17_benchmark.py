"""gunicorn -k gevent: 5 ms of CPU around 55 ms of I/O: what a benchmark with 50 clients in a closed loop asks."""

import time

import gevent
from flask import Flask

app = Flask(__name__)


@app.get("/offer")
def offer():
    compute()
    gevent.sleep(0.055)
    return {"cents": compute()}


def compute():
    end = time.thread_time() + 0.0025
    cents = 0
    while time.thread_time() < end:
        cents = (cents * 31 + 7) & 0xFF
    return cents
