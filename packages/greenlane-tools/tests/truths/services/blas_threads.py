"""Flask: sixteen threads of OpenBLAS for each of many small products, on two cores."""

import numpy
from flask import Flask

app = Flask(__name__)
matrix = numpy.random.default_rng(1).random((500, 500))


@app.get("/rank")
def rank():
    product = matrix
    for _ in range(6):
        product = product @ matrix / 250  # here
    return str(product[0, 0])
