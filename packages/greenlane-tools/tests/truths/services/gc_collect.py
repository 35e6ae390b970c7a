"""Flask: "to save memory" one route collects garbage, beside a large cache."""

import gc

from flask import Flask

app = Flask(__name__)
cache = [{"number": number} for number in range(1_500_000)]


@app.get("/import")
def load():
    gc.collect()  # here
    return "done"


@app.get("/ping")
def ping():
    return "pong"
