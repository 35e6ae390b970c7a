"""Flask: a backup of 10 MB is parsed in one call."""

import json

from flask import Flask

app = Flask(__name__)
backup = json.dumps([{"number": number, "values": [number, number + 0.5, "x" * 8]} for number in range(200_000)])


@app.get("/restore")
def restore():
    return str(len(json.loads(backup)))  # here


@app.get("/ping")
def ping():
    return "pong"
