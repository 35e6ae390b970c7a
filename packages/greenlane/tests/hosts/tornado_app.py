"""A server on tornado with one of each: routes, streams, a WebSocket, a callback, a WSGI application."""

# mypy: disable-error-code="no-untyped-def, misc"

from __future__ import annotations

import asyncio
import sys

import flask
from tornado import httpserver, httputil, routing, web, websocket, wsgi
from tornado.httpclient import AsyncHTTPClient


class Quote(web.RequestHandler):
    async def get(self, number):
        await asyncio.sleep(0.02)
        self.write(f"quote {number}")


class Boom(web.RequestHandler):
    def get(self):
        raise ValueError("boom")


class Stream(web.RequestHandler):
    async def get(self):
        for _ in range(3):
            await asyncio.sleep(0.02)
            self.write("piece ")
            await self.flush()


@web.stream_request_body
class Body(web.RequestHandler):
    def prepare(self):
        self.length = 0

    def data_received(self, chunk):
        self.length += len(chunk)

    def post(self):
        self.write(str(self.length))


class Forever(web.RequestHandler):
    async def get(self):
        await asyncio.Event().wait()


class Echo(websocket.WebSocketHandler):
    def on_message(self, message):
        self.write_message(message)


class Upstream(web.RequestHandler):
    async def get(self):
        port = self.request.connection.stream.socket.getsockname()[1]
        answer = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/quote/1")
        self.write(answer.body)


below = flask.Flask(__name__)
below.add_url_rule("/wsgi/bikes/<int:number>", view_func=lambda number: "bike", endpoint="bikes")


def callback(request):
    """Answer as a server without handlers does."""
    line = httputil.ResponseStartLine("", 202, "Accepted")
    request.connection.write_headers(line, httputil.HTTPHeaders({"Content-Length": "2"}), b"ok")
    request.connection.finish()


application = web.Application(
    [
        (r"/quote/(\d+)", Quote),
        (r"/boom", Boom),
        (r"/stream", Stream),
        (r"/body", Body),
        (r"/forever", Forever),
        (r"/socket", Echo),
        (r"/upstream", Upstream),
        (r"/wsgi/.*", web.FallbackHandler, {"fallback": wsgi.WSGIContainer(below)}),
    ],
    log_function=lambda handler: None,
)


async def main() -> None:
    """Serve on the port of the command line until the process is ended."""
    router = routing.RuleRouter([routing.Rule(routing.PathMatches("/callback"), callback), (r"/.*", application)])
    httpserver.HTTPServer(router).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
