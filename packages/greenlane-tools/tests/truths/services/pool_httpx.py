"""Flask: httpx' client with at most two connections."""

import os

import httpx
from flask import Flask

app = Flask(__name__)
http = httpx.Client(limits=httpx.Limits(max_connections=2), timeout=20)


@app.get("/price")
def price():
    return http.get(os.environ["UPSTREAM"]).text  # here
