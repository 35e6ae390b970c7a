"""Applications that are mounted in others, each by the real framework: `wsgi`, `asgi`, and aiohttp's by `main`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, misc"

from __future__ import annotations

import sys
import warnings

import bottle
import django
import falcon
import flask
from aiohttp import web
from django.conf import settings
from django.http import HttpResponse
from django.urls import path
from fastapi import FastAPI
from pyramid.config import Configurator
from pyramid.response import Response
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from werkzeug.middleware.dispatcher import DispatcherMiddleware

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from starlette.middleware.wsgi import WSGIMiddleware

METHODS = ["GET", "PROPFIND", "REPORT", "MKCALENDAR", "PURGE"]

of_flask = flask.Flask(__name__)
of_flask.add_url_rule("/bikes/<int:number>", view_func=lambda number: "bike", endpoint="bikes", methods=METHODS)

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="x", LOGGING_CONFIG=None)
django.setup()
urlpatterns = [path("bikes/<int:number>", lambda request, number: HttpResponse("bike"))]
from django.core.asgi import get_asgi_application  # noqa: E402 # after its set-up
from django.core.wsgi import get_wsgi_application  # noqa: E402

of_bottle = bottle.Bottle()
of_bottle.route("/bikes/<number:int>", callback=lambda number: "bike")
outer_bottle = bottle.Bottle()
outer_bottle.mount("/inner", of_bottle)

of_falcon = falcon.App()
of_falcon.add_route("/bikes/{number}", type("Bikes", (), {"on_get": lambda self, request, response, number: None})())

_pyramid = Configurator()
_pyramid.add_route("bikes", "/bikes/{number}")
_pyramid.add_view(lambda request: Response("bike"), route_name="bikes")

wsgi = DispatcherMiddleware(
    of_flask,
    {
        "/flask": of_flask,
        "/deep/flask": DispatcherMiddleware(of_flask, {"/below": of_flask}),
        "/django": get_wsgi_application(),
        "/bottle": outer_bottle,
        "/falcon": of_falcon,
        "/pyramid": _pyramid.make_wsgi_app(),
    },
)


async def bike(request):
    return PlainTextResponse("bike")


of_starlette = Starlette(routes=[Route("/bikes/{number:int}", bike, methods=METHODS)])
of_fastapi = FastAPI()
of_fastapi.get("/bikes/{number}")(lambda number: "bike")
_of_fastapi_inner = FastAPI()
_of_fastapi_inner.get("/bikes/{number}")(lambda number: "bike")
of_fastapi.mount("/inner", _of_fastapi_inner)

asgi = Starlette(
    routes=[
        Mount("/starlette", of_starlette),
        Mount("/of/{tenant}", routes=[Mount("/inner", of_starlette)]),
        Mount("/fastapi", of_fastapi),
        Mount("/flask", WSGIMiddleware(of_flask)),
        Mount("/django", get_asgi_application()),
        Mount("/", WSGIMiddleware(of_flask)),
    ]
)


async def _bike(request):
    return web.Response(text="bike")


def main() -> None:
    """Serve aiohttp's sub-applications on the port of the command line."""
    inner, outer, app = web.Application(), web.Application(), web.Application()
    inner.router.add_get("/bikes/{number}", _bike)
    inner.router.add_route("PROPFIND", "/bikes/{number}", _bike)
    outer.add_subapp("/inner", inner)
    app.add_subapp("/outer", outer)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None)


if __name__ == "__main__":
    main()
