"""Flask: exports are written as indented JSON, in Python; offers ask five times for something."""

import json
import os

import httpx
from flask import Flask

app = Flask(__name__)
http = httpx.Client(timeout=20)
rows = [{"number": number, "name": f"item {number}"} for number in range(40_000)]


@app.get("/export")
def export():
    return json.dumps(rows, indent=1)  # here


@app.get("/offer")
def offer():
    return [http.get(os.environ["UPSTREAM"]).text for _ in range(5)]
