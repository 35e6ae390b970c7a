"""gunicorn -k sync: a page waits 60 ms for its upstream, and the worker takes one connection at a time."""

import os

import requests
from flask import Flask

app = Flask(__name__)


@app.get("/page")
def page():
    return requests.get(os.environ["UPSTREAM"], timeout=30).text
