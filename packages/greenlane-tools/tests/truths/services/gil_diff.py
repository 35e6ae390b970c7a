"""Flask: differences of two documents by difflib, beside pages that ask Redis."""

import difflib
import os

import redis
from flask import Flask

app = Flask(__name__)
store = redis.Redis.from_url(os.environ["REDIS_URL"])
old = [f"line {number} {number * 7 % 13}" for number in range(1500)]
new = [line if number % 3 else line + "!" for number, line in enumerate(old)]


@app.get("/diff")
def diff():
    return difflib.HtmlDiff().make_table(old, new)  # here


@app.get("/page")
def page():
    return str([store.get(str(number)) for number in range(20)])
