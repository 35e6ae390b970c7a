"""Flask: urllib3's pool of one connection that blocks; a download that is read slowly keeps it."""

import os

import urllib3
from flask import Flask

app = Flask(__name__)
http = urllib3.PoolManager(maxsize=1, block=True)


@app.get("/track")
def track():
    return http.request("GET", os.environ["UPSTREAM"]).data  # here
