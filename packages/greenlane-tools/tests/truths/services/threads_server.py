"""Flask: an upstream of half a second takes all threads of the server."""

import os

import httpx
from flask import Flask

app = Flask(__name__)
http = httpx.Client(timeout=20)


@app.get("/slow")
def slow():
    return http.get(os.environ["UPSTREAM"]).text  # here


@app.get("/ping")
def ping():
    return "pong"
