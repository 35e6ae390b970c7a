"""Flask: a partner that takes 600 ms."""

import os

import httpx
from flask import Flask

app = Flask(__name__)
http = httpx.Client(timeout=20)


@app.get("/partner")
def partner():
    return http.get(os.environ["UPSTREAM"]).text  # here


@app.get("/ping")
def ping():
    return "pong"
