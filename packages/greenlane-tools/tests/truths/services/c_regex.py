"""Flask: a pattern that backtracks, for half a second in one call of C."""

import re

from flask import Flask

app = Flask(__name__)
NAME = re.compile(r"(a+)+$")


@app.get("/check")
def check():
    return str(bool(NAME.match("a" * 23 + "!")))  # here


@app.get("/ping")
def ping():
    return "pong"
