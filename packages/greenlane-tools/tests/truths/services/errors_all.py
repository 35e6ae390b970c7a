"""Flask: a release in which every answer is a 500."""

import os

from flask import Flask

app = Flask(__name__)


@app.get("/cart")
def cart():
    return {"items": os.environ["CART_SERVICE"]}  # here
