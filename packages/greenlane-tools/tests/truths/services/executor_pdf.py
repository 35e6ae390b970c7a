"""Flask: documents are made by a pool of two threads."""

import os
from concurrent.futures import ThreadPoolExecutor

import httpx
from flask import Flask

app = Flask(__name__)
http = httpx.Client(timeout=20)
pool = ThreadPoolExecutor(2, thread_name_prefix="pdf")


def render():  # here
    return http.get(os.environ["UPSTREAM"]).text  # here


@app.get("/invoice")
def invoice():
    return pool.submit(render).result()  # here
