"""Flask: a session of requests whose pool has two connections, and blocks."""

import os

import requests
from flask import Flask
from requests.adapters import HTTPAdapter

app = Flask(__name__)
session = requests.Session()
session.mount("http://", HTTPAdapter(pool_maxsize=2, pool_block=True))


@app.get("/price")
def price():
    return session.get(os.environ["UPSTREAM"], timeout=20).text  # here
