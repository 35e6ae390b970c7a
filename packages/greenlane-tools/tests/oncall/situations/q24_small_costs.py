"""gunicorn -k gthread: a feed of 2,000 items is read, checked, written as JSON, and every twelfth logged."""

import json
import logging
import os
import pickle

from flask import Flask, Response

app = Flask(__name__)
log = logging.getLogger("feed")
handler = logging.FileHandler(os.devnull)
handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
log.addHandler(handler)
log.propagate = False
log.setLevel(logging.INFO)
ITEMS = [{"id": n, "title": f"item {n}", "cents": 37 * n % 9000, "tags": ["a", "b", str(n)]} for n in range(2_000)]
STORED = pickle.dumps(ITEMS)


@app.get("/feed")
def feed():
    items = pickle.loads(STORED)
    checked = [item for item in items if valid(item)]
    for item in checked[::12]:
        log.info("shown %s for %d", item["title"], item["cents"])
    return Response(as_json(checked), mimetype="application/json")


def valid(item):
    return isinstance(item["id"], int) and isinstance(item["title"], str) and all(map(str, item["tags"]))


def as_json(items):
    return json.dumps(items, indent=1)
