"""gunicorn -k gevent: a dependency answers in 110 ms; a report reads its rows and computes for 400 ms."""

import os
import time

import requests
from flask import Flask

app = Flask(__name__)


@app.get("/price")
def price():
    return requests.get(os.environ["UPSTREAM"], timeout=30).text


@app.get("/report")
def report():
    requests.get(os.environ["STORE"], timeout=30)
    return {"total": totals()}


def totals():
    end = time.thread_time() + 0.4
    total = 0
    while time.thread_time() < end:
        total = (total * 31 + 7) & 0xFFFF
    return total
