"""Flask: numpy solves equations with more threads than cores, beside pages."""

import numpy
from flask import Flask

app = Flask(__name__)
matrix = numpy.random.default_rng(1).random((600, 600))


@app.get("/solve")
def solve():
    return str(numpy.linalg.inv(matrix)[0, 0])  # here


@app.get("/ping")
def ping():
    return "pong"
