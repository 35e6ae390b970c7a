"""`python run.py SERVER PORT`: one of the servers that have no command of their own."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import clocked


def waitress(port: int) -> None:
    import waitress as served

    served.serve(clocked.wsgi, listen=f"127.0.0.1:{port}", threads=2)


def waitress_ahead(port: int) -> None:
    import waitress as served

    served.serve(clocked.wsgi, listen=f"127.0.0.1:{port}", threads=2, channel_request_lookahead=5)


def cheroot(port: int) -> None:
    from cheroot.wsgi import Server

    Server(("127.0.0.1", port), clocked.wsgi, numthreads=2).start()


def wsgiref(port: int) -> None:
    from wsgiref.simple_server import make_server

    make_server("127.0.0.1", port, clocked.wsgi).serve_forever()


def werkzeug(port: int) -> None:
    from werkzeug.serving import WSGIRequestHandler, run_simple

    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    # Else the client gets a body 40 ms after it was sent: Nagle's algorithm waits for a delayed acknowledgement.
    WSGIRequestHandler.disable_nagle_algorithm = True
    run_simple("127.0.0.1", port, clocked.flask(), threaded=True)


def http_server(port: int) -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            began_ns = time.monotonic_ns()
            time.sleep(clocked.hold_s(self.path))
            self.rfile.read(int(self.headers.get("content-length", 0)))
            body = clocked.answer(began_ns)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def aiohttp(port: int) -> None:
    from aiohttp import web

    async def hold(request: Any) -> Any:
        began_ns = time.monotonic_ns()
        await asyncio.sleep(clocked.hold_s(request.path))
        return web.Response(body=clocked.answer(began_ns), content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/hold/{ms}", hold)
    web.run_app(app, host="127.0.0.1", port=port, print=None)


def pywsgi(port: int) -> None:
    from gevent import monkey

    monkey.patch_all()
    from gevent.pywsgi import WSGIServer

    WSGIServer(("127.0.0.1", port), clocked.wsgi, log=None).serve_forever()


def tornado(port: int) -> None:
    from tornado import web

    class Hold(web.RequestHandler):
        async def get(self, ms: str) -> None:
            began_ns = time.monotonic_ns()
            await asyncio.sleep(int(ms) / 1000)
            self.set_header("Content-Type", "application/json")
            self.write(clocked.answer(began_ns))

        post = get

    async def main() -> None:
        web.Application([(r"/hold/(\d+)", Hold)]).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(main())


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))
