"""Flask with redis-py (REDIS_URL): a blocking pool of two, pipelines, and a lock that lives in Redis."""

import os

import flask
import redis

from tests.system.apps.work import Failure, burn

client = redis.Redis(
    connection_pool=redis.BlockingConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=2, timeout=30)
)


def prepare() -> None:
    client.flushall()


application = flask.Flask(__name__)


@application.get("/heavy/<int:n>")
def heavy(n):
    # Held over CPU work; others wait for it by polling Redis.
    with client.lock(f"lock:{n % 3}", timeout=30, blocking_timeout=30, sleep=0.002):
        total = burn(6)
        with client.pipeline() as pipeline:
            pipeline.incr(f"effects:{n}")
            pipeline.incr("total")
            effects, _ = pipeline.execute()
    burn(6)
    return {"n": n, "effects": effects, "sum": total}


@application.get("/light/<int:n>")
def light(n):
    client.set(f"light:{n}", n * n, ex=60)
    return {"n": n, "square": int(client.get(f"light:{n}"))}


@application.get("/fail/<int:n>")
def fail(n):
    with client.pipeline() as pipeline:
        pipeline.incr("total")
        raise Failure


@application.get("/total")
def total():
    return {"total": int(client.get("total") or 0)}
