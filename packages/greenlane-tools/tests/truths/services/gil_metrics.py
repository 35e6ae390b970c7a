"""Flask: Prometheus' multiprocess metrics, merged from hundreds of files that dead workers left."""

import os

import redis
from flask import Flask
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

app = Flask(__name__)
store = redis.Redis.from_url(os.environ["REDIS_URL"])


@app.get("/metrics")
def metrics():
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return generate_latest(registry)  # here


@app.get("/item")
def item():
    return str([store.get(str(number)) for number in range(10)])
