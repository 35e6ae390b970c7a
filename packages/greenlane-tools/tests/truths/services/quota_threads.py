"""Flask: pages that compute 20 ms, in a container of 0.3 cores."""

import time

from flask import Flask

app = Flask(__name__)


@app.get("/page")
def page():
    end = time.thread_time() + 0.02
    lines = 0
    while time.thread_time() < end:  # here
        lines += 1  # here
    return str(lines)
