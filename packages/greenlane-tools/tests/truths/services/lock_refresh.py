"""Flask: rates are fetched while a lock is held that every price needs."""

import os
import threading

import httpx
from flask import Flask

app = Flask(__name__)
http = httpx.Client(timeout=20)
lock = threading.Lock()
rates = {}


@app.get("/refresh")
def refresh():
    with lock:  # here
        rates["all"] = http.get(os.environ["UPSTREAM"]).text  # here
    return "new"


@app.get("/price")
def price():
    with lock:
        return rates.get("all", "")
