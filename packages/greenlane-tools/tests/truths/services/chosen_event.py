"""Flask: a long poll waits at most a second for news."""

import threading

from flask import Flask

app = Flask(__name__)
news = threading.Event()


@app.get("/poll")
def poll():
    return str(news.wait(1))  # here


@app.get("/ping")
def ping():
    return "pong"
