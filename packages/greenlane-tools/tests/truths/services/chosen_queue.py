"""Flask: a page takes what a queue has, and waits at most a second."""

import queue

from flask import Flask

app = Flask(__name__)
jobs = queue.Queue()


@app.get("/next")
def following():
    try:
        return jobs.get(timeout=1)  # here
    except queue.Empty:
        return "none"
