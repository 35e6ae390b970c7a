"""gunicorn -k gevent: orders go to SQLite, whose C code waits for the file's lock and knows nothing of gevent."""

import os
import sqlite3

import gevent
from flask import Flask

app = Flask(__name__)


@app.get("/ping")
def ping():
    gevent.sleep(0.005)
    return "pong"


@app.get("/order")
def order():
    save(os.environ["DATABASE"])
    return "saved"


def save(path):
    with sqlite3.connect(path, timeout=5) as database:
        database.execute("insert into orders values (1)")
