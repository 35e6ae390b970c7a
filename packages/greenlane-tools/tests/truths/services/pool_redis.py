"""Flask: a queue is read by a blocking command on one of the cache's two connections."""

import os

import redis
from flask import Flask

app = Flask(__name__)
pool = redis.BlockingConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=2, timeout=20)
store = redis.Redis(connection_pool=pool)


@app.get("/jobs")
def jobs():
    return str(store.blpop("jobs", timeout=1))  # here


@app.get("/cart")
def cart():
    return str(store.get("cart"))
