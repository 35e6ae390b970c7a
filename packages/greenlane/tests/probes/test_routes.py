"""Routes are named by the framework's rule, before the view runs, and a mark on the view pins its route once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.probes.observer import Observer

from greenlane import heavy, light

Get = Callable[..., str]


def ask(app: Any, path: str, method: str = "GET") -> str:
    """One request through WSGI; its status line."""
    from wsgiref.util import setup_testing_defaults

    statuses: list[str] = []
    environ: dict[str, Any] = {"PATH_INFO": path, "REQUEST_METHOD": method, "SERVER_NAME": "testserver"}
    setup_testing_defaults(environ)
    environ["HTTP_HOST"] = "testserver"
    body = app(environ, lambda status, headers, exc_info=None: statuses.append(status))
    try:
        b"".join(body)
    finally:
        getattr(body, "close", lambda: None)()
    return statuses[-1]


def test_flask(seen: Observer) -> None:
    from flask import Flask
    from flask.views import View

    app = Flask("service")
    app.before_request(lambda: seen.names.append("before_request"))

    @app.get("/bikes/<int:number>")
    def bikes(number: int) -> str:
        seen.names.append("view")
        return "bike"

    @app.route("/quote", methods=["GET", "POST"])
    @heavy
    def quote() -> str:
        return "12.50"

    @light
    class Ping(View):
        def dispatch_request(self) -> str:
            return "pong"

    app.add_url_rule("/ping", view_func=Ping.as_view("ping"))

    assert ask(app, "/bikes/7") == "200 OK"
    assert seen.names == ["GET /bikes/<int:number>", "before_request", "view"]
    assert seen.pins == []
    seen.names.clear()
    for _ in range(2):
        ask(app, "/quote")
        ask(app, "/quote", "POST")
    ask(app, "/ping")
    assert [name for name in seen.names if name[0].isupper()] == [*["GET /quote", "POST /quote"] * 2, "GET /ping"]
    assert seen.pins == [("GET /quote", "heavy"), ("POST /quote", "heavy"), ("GET /ping", "light")]
    seen.names.clear()
    assert ask(app, "/wp-login.php").startswith("404")
    assert ask(app, "/quote", "DELETE").startswith("405")
    assert ask(app, "/quote", "X3F9").startswith("405")
    assert set(seen.names) - {"before_request"} == {"GET (no route)", "DELETE (no route)", "OTHER (no route)"}


DJANGO = """
import sys
sys.path[:0] = sys.argv[1:]
import django
from django.conf import settings
from django.http import HttpResponse
from django.urls import include, path, re_path
from django.views import View
from greenlane import heavy, phase, probes
from tests.probes.observer import Observer
from tests.probes.test_routes import ask

probes.install()
seen = Observer()
phase.subscribe(seen)
phase.offer(seen)

def bikes(request, number):
    seen.names.append("view")
    return HttpResponse("bike")

@heavy
class Quote(View):
    def get(self, request):
        return HttpResponse("12.50")

urlpatterns = [
    path("bikes/<int:number>", bikes),
    path("shop/", include([path("quote", Quote.as_view()), re_path(r"^old/(?P<year>[0-9]+)$", bikes)])),
]
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"], SECRET_KEY="x", LOGGING_CONFIG=None)
django.setup()
from django.core.wsgi import get_wsgi_application
app = get_wsgi_application()
import logging
logging.disable()

assert ask(app, "/bikes/7") == "200 OK"
assert seen.names == ["GET /bikes/<int:number>", "view"], seen.names
seen.names.clear()
ask(app, "/shop/quote")
ask(app, "/shop/quote")
assert ask(app, "/shop/nothing").startswith("404")
assert seen.names == ["GET /shop/quote", "GET /shop/quote", "GET (no route)"], seen.names
assert seen.pins == [("GET /shop/quote", "heavy")], seen.pins
assert probes.absent() == ()
"""


@pytest.mark.slow
def test_django(run_python: Any) -> None:
    import sys

    run_python(DJANGO, *(entry for entry in sys.path if entry))


def test_bottle(seen: Observer) -> None:
    bottle = pytest.importorskip("bottle")
    app = bottle.Bottle()
    app.route("/bikes/<number:int>", callback=lambda number: "bike")
    app.route("/quote", callback=heavy(lambda: "12.50"))
    assert ask(app, "/bikes/7").startswith("200")
    assert ask(app, "/quote").startswith("200")
    assert ask(app, "/nothing").startswith("404")
    assert seen.names == ["GET /bikes/<number:int>", "GET /quote", "GET (no route)"]
    assert seen.pins == [("GET /quote", "heavy")]


def test_falcon(seen: Observer) -> None:
    falcon = pytest.importorskip("falcon")

    class Bikes:
        def on_get(self, request: Any, response: Any, number: str) -> None:
            response.text = number

    class Quote:
        @heavy
        def on_get(self, request: Any, response: Any) -> None:
            response.text = "12.50"

    app = falcon.App()
    app.add_route("/bikes/{number}", Bikes())
    app.add_route("/quote", Quote())
    assert ask(app, "/bikes/7").startswith("200")
    assert ask(app, "/quote").startswith("200")
    assert ask(app, "/nothing").startswith("404")
    assert seen.names == ["GET /bikes/{number}", "GET /quote", "GET (no route)"]
    assert seen.pins == [("GET /quote", "heavy")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_pyramid(seen: Observer) -> None:
    pytest.importorskip("pyramid")
    from pyramid.config import Configurator
    from pyramid.response import Response

    with Configurator() as config:
        config.add_route("bikes", "/bikes/{number}")
        config.add_view(lambda request: Response("bike"), route_name="bikes")
        app = config.make_wsgi_app()
    assert ask(app, "/bikes/7").startswith("200")
    assert ask(app, "/nothing").startswith("404")
    assert seen.names == ["GET /bikes/{number}", "GET (no route)"]


def test_a_thread_without_a_job_names_nothing(seen: Observer, monkeypatch: pytest.MonkeyPatch) -> None:
    from flask import Flask

    from greenlane import phase

    app = Flask("service")
    app.add_url_rule("/", view_func=lambda: "page")
    phase.withdraw(seen)
    assert ask(app, "/") == "200 OK"
    assert seen.names == []
