# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Programs that tell what has changed in their own process: with Greenlane, switched off, and taken out again.

    python -P traced.py KIND PORT

The same programs run without Greenlane beside them: what changes there, too, is the host's.
"""

import functools
import json
import os
import sys
import threading
import time

import snapshot

FILE = "TRACE_FILE"


@functools.cache
def begin():
    """The look that all others are compared with. Called once the host serves, or at the start where it loads us."""
    return snapshot.look(snapshot.slots())


def steps():
    """Look, switch off, on again, and take everything out; name -> what differs, in each state."""
    found = {}
    for state, change in (("on", None), ("off", off), ("on again", on), ("out", out)):
        if change is not None:
            change()
            settle()
        now = snapshot.look(snapshot.slots())
        found[state] = {"changed": snapshot.difference(begin(), now), "ours": snapshot.of_ours(now)}
    return found


def settle():
    """Threads that were told to end have ended."""
    answers = getattr(sys.modules.get("greenlane.wiring.health"), "_service", None) is not None
    ending = ("greenlane-w",) if answers else ("greenlane-w", "greenlane-h")
    for _ in range(100):
        names = [name for name in map(_comm, os.listdir("/proc/self/task")) if name.startswith(ending)]
        if not names:
            return
        time.sleep(0.01)


def _comm(task):
    try:
        with open(f"/proc/self/task/{task}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return ""


def off():
    """As `greenlane mode off` and `greenlane record --off` do it."""
    _switch("off", False)


def on():
    """Likewise."""
    _switch("on", True)


def _switch(mode, recorded):
    process = sys.modules.get("greenlane.wiring.process")
    if process is not None and process.running() is not None:
        process.running().set_mode(mode)
    recording = sys.modules.get("greenlane.wiring.recording")
    if recording is not None and recording.recording() is not None:
        recording.recording().record(recorded)


def out():
    """As hosts do it when they detach, and a recording that has ended."""
    process = sys.modules.get("greenlane.wiring.process")
    if process is not None and process.running() is not None:
        process.running().stop()
    recording = sys.modules.get("greenlane.wiring.recording")
    if recording is not None and recording.recording() is not None:
        recording.stop_recording()
    health = sys.modules.get("greenlane.wiring.health")
    if health is not None:
        health.health("")


def answer(path):
    """The body of an answer: warm-up at "/", the result at "/steps"."""
    if path != "/steps":
        time.sleep(0.001)
        return b"an answer\n"
    return json.dumps(steps()).encode()


def wsgi(environ, start_response):
    """A WSGI application."""
    body = answer(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope, receive, send):
    """Likewise for ASGI."""
    if scope["type"] == "http":
        body = answer(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": body})


def serve_wsgi(application, port):
    """A threaded server of the standard library."""
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Quiet(WSGIRequestHandler):
        def log_message(self, *_arguments):
            pass

    server = Server(("127.0.0.1", port), Quiet)
    server.set_app(application)
    server.serve_forever()


def serve_aiohttp(port, middlewares):
    """aiohttp with one view in a thread."""
    import asyncio

    from aiohttp import web

    async def view(request):
        return web.Response(body=await asyncio.to_thread(answer, request.path))

    application = web.Application(middlewares=middlewares)
    application.router.add_get("/{tail:.*}", view)
    web.run_app(application, host="127.0.0.1", port=port, print=None)


def run_gevent():
    """Green threads that wait for each other, then the steps; no server."""
    from gevent import monkey

    monkey.patch_all()
    begin()
    import gevent

    gevent.joinall([gevent.spawn(time.sleep, 0.01) for _ in range(5)])
    _write(steps())


def run_loop(loop_factory=None):
    """Likewise tasks."""
    import asyncio

    async def main():
        await asyncio.gather(*(asyncio.sleep(0.01) for _ in range(5)))
        return await asyncio.to_thread(steps)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        _write(runner.run(main()))


def run_threads():
    """Likewise threads."""
    threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _write(steps())


def _write(found):
    with open(os.environ[FILE], "w", encoding="utf-8") as file:
        json.dump(found, file)


def __getattr__(name):
    if name == "wrapped":
        from greenlane.hosts.asgi import Greenlane

        return Greenlane(asgi)
    if name == "celery":
        return orders()
    raise AttributeError(name)


def orders():
    """A Celery application whose worker gives itself orders; the last one takes the steps."""
    from celery import Celery, signals

    application = Celery("traced", broker="memory://")
    application.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)

    @application.task(name="order", acks_late=True)
    def order(number):
        time.sleep(0.001)
        if number == 3:
            _write(steps())

    @signals.worker_ready.connect(weak=False)
    def give(**_named):
        for number in range(4):
            order.apply_async((number,))

    return application


if __name__ == "__main__":
    import traced  # the one that sitecustomize has loaded

    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "wsgi":
        from greenlane.hosts.wsgi import Greenlane

        traced.serve_wsgi(Greenlane(traced.wsgi), port)
    elif kind == "aiohttp":
        from greenlane.hosts.aiohttp import deadlines

        traced.serve_aiohttp(port, [deadlines])
    elif kind == "health":
        import greenlane

        greenlane.health("127.0.0.1:" + str(port + 1))
        traced.serve_wsgi(traced.wsgi, port)
    elif kind == "plain wsgi":
        traced.serve_wsgi(traced.wsgi, port)
    elif kind == "plain aiohttp":
        traced.serve_aiohttp(port, [])
    elif kind == "uvloop":
        import uvloop

        traced.run_loop(uvloop.new_event_loop)
    else:
        {"gevent": traced.run_gevent, "asyncio": traced.run_loop, "threads": traced.run_threads}[kind]()
