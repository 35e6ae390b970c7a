"""Flask that calls an upstream service (UPSTREAM_URL) by requests and urllib3, each with a blocking pool of two."""

import os

import flask
import requests
import urllib3
from requests.adapters import HTTPAdapter

from tests.system.apps.work import Failure, burn

upstream = os.environ["UPSTREAM_URL"]
session = requests.Session()
session.mount("http://", HTTPAdapter(pool_connections=1, pool_maxsize=2, pool_block=True))
connections = urllib3.PoolManager(maxsize=2, block=True)


def prepare() -> None:
    pass


application = flask.Flask(__name__)


@application.get("/heavy/<int:n>")
def heavy(n):
    session.post(f"{upstream}/effects/{n}", data=b"x" * 20_000, timeout=30).raise_for_status()
    total = burn(6)
    answer = connections.request("GET", f"{upstream}/effects/{n}", preload_content=False)
    burn(6)  # one connection of two is out meanwhile
    effects = answer.json()["value"]
    answer.release_conn()
    return {"n": n, "effects": effects, "sum": total}


@application.get("/light/<int:n>")
def light(n):
    return {"n": n, "square": session.get(f"{upstream}/square/{n}", timeout=30).json()["value"]}


@application.get("/fail/<int:n>")
def fail(n):
    with session.get(f"{upstream}/square/{n}", timeout=30, stream=True):
        raise Failure


@application.get("/total")
def total():
    return {"total": session.get(f"{upstream}/effects/all", timeout=30).json()["value"]}
