"""Flask: a readiness probe waits for the boot; then there is nothing."""

import threading
import time

from flask import Flask

app = Flask(__name__)
ready = threading.Event()
threading.Thread(target=lambda: (time.sleep(1.5), ready.set()), daemon=True).start()


@app.get("/ready")
def probe():
    ready.wait()
    return "ready"


@app.get("/item")
def item():
    time.sleep(0.02)  # here
    return "item"
