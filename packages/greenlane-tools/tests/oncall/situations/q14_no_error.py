"""gunicorn -k gevent: the client's timeout is 500 ms, the upstream takes 200, and a summary computes for 1.2 s."""

import os
import time

import requests
from flask import Flask

app = Flask(__name__)


@app.get("/stock")
def stock():
    return requests.get(os.environ["UPSTREAM"], timeout=0.5).text


@app.get("/summary")
def summary():
    end = time.thread_time() + 1.2
    rows = 0
    while time.thread_time() < end:
        rows += 1
    return {"rows": rows}
