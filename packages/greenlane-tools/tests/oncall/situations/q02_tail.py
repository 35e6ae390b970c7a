"""gunicorn -k gthread: an offer asks its upstream three times; now and then three exports compute at once."""

import os
import time

import requests
from flask import Flask

app = Flask(__name__)


@app.get("/offer")
def offer():
    for _ in range(3):
        weigh(0.001)
        requests.get(os.environ["UPSTREAM"], timeout=30)
    return {"cents": 100}


@app.get("/export")
def export():
    return {"rows": weigh(0.2)}


def weigh(seconds):
    end = time.thread_time() + seconds
    rows = 0
    while time.thread_time() < end:
        rows += 1
    return rows
