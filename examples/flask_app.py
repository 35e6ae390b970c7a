"""A Flask application: `/quick` waits for another service, `/heavy` computes."""

import time

from flask import Flask

app = Flask(__name__)


@app.get("/quick")
def quick():
    time.sleep(0.02)  # stands for a call to another service
    return "here\n"


@app.get("/heavy")
def heavy():
    return f"{sum(n * n % 97 for n in range(1_000_000))}\n"
