"""Flask: multiprocessing's pool of two; long jobs take both."""

import multiprocessing
import time

from flask import Flask

app = Flask(__name__)
pool = multiprocessing.get_context("fork").Pool(2)


@app.get("/long")
def long():
    pool.apply(time.sleep, (0.8,))  # here
    return "long"


@app.get("/short")
def short():
    return str(pool.apply(abs, (-7,)))
