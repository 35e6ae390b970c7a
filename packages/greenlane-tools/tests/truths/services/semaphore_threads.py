"""Flask: at most two calls of a partner at a time."""

import os
import threading

import httpx
from flask import Flask

app = Flask(__name__)
http = httpx.Client(timeout=20)
partner = threading.Semaphore(2)


@app.get("/book")
def book():
    with partner:  # here
        return http.get(os.environ["UPSTREAM"]).text  # here
