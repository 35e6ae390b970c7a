"""gunicorn -k gevent: a counter in Redis takes less than 1 ms; a report computes for 150 ms now and then."""

import os
import time

import redis
from flask import Flask

app = Flask(__name__)
store = redis.Redis.from_url(os.environ["REDIS_URL"])
# Connections of the pool, made before the first request needs them.
for connection in [store.connection_pool.get_connection() for _ in range(6)]:
    store.connection_pool.release(connection)


@app.get("/hit")
def hit():
    return {"count": store.incr("hits")}


@app.get("/report")
def report():
    end = time.thread_time() + 0.15
    rows = 0
    while time.thread_time() < end:
        rows += 1
    return {"rows": rows}
