"""gunicorn -k gthread: three modes are asked at the same time, each has 500 ms, and what is late is left out."""

import os
from concurrent.futures import ThreadPoolExecutor

import requests
from flask import Flask

app = Flask(__name__)
pool = ThreadPoolExecutor(32)
MODES = ("bike", "scooter", "transit")


@app.get("/offers")
def offers():
    answers = list(pool.map(ask, MODES))
    return {"offers": [answer for answer in answers if answer]}


def ask(mode):
    try:
        return requests.get(os.environ[f"UPSTREAM_{mode.upper()}"], timeout=0.5).text
    except requests.Timeout:
        return None
