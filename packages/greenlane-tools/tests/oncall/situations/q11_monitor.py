"""gunicorn -k gevent with gevent's own monitor on: 5 ms of CPU and 55 ms of I/O, or one stall of 400 ms."""

import time

import gevent
from flask import Flask

app = Flask(__name__)


@app.get("/offer")
def offer():
    compute(0.0025)
    gevent.sleep(0.055)
    return {"cents": compute(0.0025)}


@app.get("/stall")
def stall():
    return {"cents": compute(0.4)}


def compute(seconds):
    end = time.thread_time() + seconds
    cents = 0
    while time.thread_time() < end:
        cents = (cents * 31 + 7) & 0xFF
    return cents
