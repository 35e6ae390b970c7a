"""gunicorn -k gevent: a counter in Redis takes less than 1 ms; a report computes for 150 ms now and then."""

import os
import time

import redis
from flask import Flask
from redis._parsers import _RESP2Parser

app = Flask(__name__)
# Not hiredis's, where it is installed: redis-py then looks whether the connection is alive before each command, with a
# poll of 0 s. gevent gives the loop its turn in it, so the command itself is sent late: another situation.
store = redis.Redis.from_url(os.environ["REDIS_URL"], parser_class=_RESP2Parser)
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
