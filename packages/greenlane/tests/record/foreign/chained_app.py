"""A small service for other tools to stand around; imports nothing of Greenlane."""

import time

from flask import Flask

app = Flask(__name__)


@app.get("/light")
def light():
    time.sleep(0.02)
    return "light"


@app.get("/heavy")
def heavy():
    end_s = time.thread_time() + 0.03
    while time.thread_time() < end_s:
        pass
    return "heavy"
