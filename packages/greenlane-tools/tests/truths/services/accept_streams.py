"""Flask: streams of events keep all threads of the server."""

import time

from flask import Flask, Response

app = Flask(__name__)


def events():
    for number in range(15):
        time.sleep(0.1)  # here
        yield f"data: {number}\n\n"  # here


@app.get("/events")
def stream():
    return Response(events(), mimetype="text/event-stream")  # here


@app.get("/ping")
def ping():
    return "pong"
