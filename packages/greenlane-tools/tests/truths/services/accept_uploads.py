"""Flask on sync workers: a client that uploads slowly keeps a worker."""

from flask import Flask, request

app = Flask(__name__)


@app.post("/upload")
def upload():
    return str(len(request.get_data()))  # here


@app.get("/ping")
def ping():
    return "pong"
