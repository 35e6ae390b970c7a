"""gunicorn -k gevent -w 2: one client keeps its connection, and with it one worker, and renders on it all the time."""

import time

import gevent
from flask import Flask

app = Flask(__name__)


@app.get("/render")
def render():
    end = time.thread_time() + 0.12
    lines = 0
    while time.thread_time() < end:
        lines += 1
    return {"lines": lines}


@app.get("/ping")
def ping():
    gevent.sleep(0.005)
    return "pong"
