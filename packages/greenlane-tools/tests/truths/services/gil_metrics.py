"""Flask: Prometheus' multiprocess metrics, merged from hundreds of files that dead workers left."""

from flask import Flask
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

app = Flask(__name__)


@app.get("/metrics")
def metrics():
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)  # here


@app.get("/item")
def item():
    return "item"
