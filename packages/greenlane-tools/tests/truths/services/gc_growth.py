"""Flask: a catalogue of small objects is read again now and then; each time the collector looks at all of them."""

from flask import Flask

app = Flask(__name__)
cache = {}


@app.get("/reload")
def reload():
    cache["all"] = [{"number": number, "tags": [number]} for number in range(400_000)]  # here
    return "done"


@app.get("/ping")
def ping():
    return "pong"
