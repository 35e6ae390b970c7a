"""Flask: four threads of OpenBLAS for the many small products of a decomposition, on two cores."""

import numpy
from flask import Flask

app = Flask(__name__)
matrix = numpy.random.default_rng(1).random((150, 150))


@app.get("/rank")
def rank():
    return str(numpy.linalg.svd(matrix)[1][0])  # here
