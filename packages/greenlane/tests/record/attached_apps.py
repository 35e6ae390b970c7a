"""Applications that `greenlane record --pid` is put to: each tells what its process has now and had not at first."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time

if sys.argv[1:2] == ["pywsgi"]:
    from gevent import monkey

    monkey.patch_all()

from tests.trace import snapshot

if "GREENLANE_CONTROL_DIR" in os.environ:
    import greenlane.attachable

    assert greenlane.attachable
_before = {}


def _answer(path):
    if path == "/first":
        snapshot.slots()
        _before.update(snapshot.look())
    if path == "/left":
        now = snapshot.look()
        workers = [one for one in gc.get_objects() if type(one).__name__.endswith("Worker")]
        applications = [vars(one)["wsgi"] for one in workers if "wsgi" in getattr(one, "__dict__", {})]
        ours = [repr(one) for one in applications if type(one).__module__.startswith("greenlane")]
        ours += snapshot.of_ours(snapshot.look(snapshot.slots()))
        return json.dumps({"changed": snapshot.difference(_before, now), "ours": ours}).encode()
    return b"{}"


def wsgi(environ, start_response):
    """A WSGI application that computes and sleeps."""
    until = time.thread_time() + 0.001
    while time.thread_time() < until:
        pass
    time.sleep(0.004)
    body = _answer(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    """Likewise for ASGI."""
    if scope["type"] == "http":
        await asyncio.sleep(0.004)
        body = _answer(scope["path"])
        head = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


def _pywsgi(port):
    import signal
    import socket

    from gevent.pywsgi import WSGIServer

    signal.getsignal(signal.SIGCHLD)  # gevent keeps what it finds when it is asked first
    # With names to resolve, gevent would begin a thread, which ends when it is idle.
    listener = socket.create_server(("127.0.0.1", port))
    WSGIServer(listener, wsgi, log=None, environ={"SERVER_NAME": "here"}).serve_forever()


def _tornado(port):
    from tornado import web

    class Answers(web.RequestHandler):
        async def get(self, path="/load"):
            await asyncio.sleep(0.004)
            self.write(_answer(path))

    async def serve():
        web.Application([("/load", Answers), ("(/.*)", Answers)], log_function=lambda _: None).listen(port, "127.0.0.1")
        await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    {"pywsgi": _pywsgi, "tornado": _tornado}[sys.argv[1]](int(sys.argv[2]))
