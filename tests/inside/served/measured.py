# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""A tiny application for every kind of host, which tells on request what of Greenlane is in its own process.

    python -P measured.py wsgi|aiohttp|plain PORT

Nothing is imported here that the host does not load anyway; the caller counts lines.
"""

import atexit
import os
import sys
import threading
import time
import types

#: The question; every other path gets an answer after a millisecond of waiting.
ASKED = "/inside"
#: A worker of orders writes the answer into the file that this variable names.
FILE = "INSIDE_FILE"


def inside():
    """Give what there is, as plain values."""
    modules = [
        (name, getattr(module, "__file__", None) or "")
        for name, module in sorted(sys.modules.items())
        if name.partition(".")[0] in OURS
    ]
    return {
        "pid": os.getpid(),
        "modules": [(name, path) for name, path in modules if path.endswith(".py")],
        "native": [(name, os.path.getsize(path)) for name, path in modules if path.endswith(".so")],
        "patches": patches(),
        "threads": threads(),
        "exit_hooks": exit_hooks(),
    }


_HERE = os.path.dirname(__file__)
OURS = ("greenlane", "greenlane_work", "greenlane_serve", "greenlane_tools")


def folders():
    """Where our code is."""
    found = (getattr(sys.modules.get(name), "__file__", None) for name in OURS)
    return tuple(os.path.dirname(path) + os.sep for path in found if path)


def is_ours(found, where):
    """Whether an attribute is a function, method, class or object made by our code; asks no stranger anything."""
    kind = type(found)
    if kind in (staticmethod, classmethod, types.MethodType):
        found = found.__func__
        kind = type(found)
    if kind is types.FunctionType:
        path = found.__code__.co_filename
        return path.startswith(where) and not path.startswith(_HERE)
    if kind is types.BuiltinMethodType:
        found = found.__self__  # a method of a native class
        kind = type(found)
    home = found if kind is type else kind
    return str(home.__dict__.get("__module__", "")).partition(".")[0] in OURS or home in native()


def native():
    """The classes of our native modules."""
    modules = (sys.modules.get(f"{name}._native") for name in OURS)
    return {found for module in modules for found in vars(module or types).values() if type(found) is type and module}


def patches():
    """Names of other people's that are ours now, each where it is defined, and C functions whose tables lead to us."""
    where = folders()
    found: set[str] = set()
    seen: set[int] = set()
    for name, module in list(sys.modules.items()):
        if module is None or name.partition(".")[0] in (*OURS, "measured", "__main__", "__mp_main__"):
            continue
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            kind = type(value)
            if kind is type and value.__module__ == name and id(value) not in seen:
                seen.add(id(value))
                names = [one for one, inner in list(vars(value).items()) if is_ours(inner, where)]
                found.update(f"{name}.{attribute}.{one}" for one in names)
            elif kind is not types.ModuleType and callable(value) and is_ours(value, where):
                # A wrapper has the module of what it wraps; elsewhere it was only imported from there.
                home = str(getattr(value, "__module__", ""))
                if home in (name, "_" + name, "", "None", "builtins") or home.partition(".")[0] in OURS:
                    found.add(f"{name}.{attribute}")
    native = sys.modules.get("greenlane.probes.native")
    return sorted(found.union(native.seen() if native else ()))


def threads():
    """Threads that run our code from their start, and native ones by their names in the kernel."""
    where, known = folders(), {thread.ident: thread for thread in threading.enumerate()}
    found = []
    for ident, frame in sys._current_frames().items():
        thread = known.get(ident)
        if thread is not None:
            if is_ours(type(thread).run, where) or is_ours(getattr(thread, "_target", None), where):
                found.append(thread.name)
            continue
        while frame.f_back is not None:
            frame = frame.f_back
        if frame.f_code.co_filename.startswith(where):
            found.append(frame.f_code.co_name)
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as comm:
                name = comm.read().strip()
        except OSError:
            continue  # ended meanwhile
        if name.startswith("greenlane-") and not "greenlane-control".startswith(name):  # that one is Python's, too
            found.append(name)
    return sorted(found)


def exit_hooks():
    """Our exit hooks."""
    where = folders()
    noted = getattr(atexit.register, "__globals__", {}).get("noted", [])  # by our `sitecustomize`
    return sorted(getattr(found, "__qualname__", "") or repr(found) for found in noted if is_ours(found, where))


def answer(path):
    """Give the body of an answer."""
    if path != ASKED:
        time.sleep(0.001)
        return b"an answer\n"
    import json

    return json.dumps(inside()).encode()


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


def serve(application, port):
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


def serve_aiohttp(port):
    """aiohttp with a view that runs a function."""
    from aiohttp import web

    import greenlane
    from greenlane.hosts.aiohttp import deadlines

    async def view(request):
        return web.Response(body=await greenlane.run(answer, request.path))

    application = web.Application(middlewares=[deadlines])
    application.router.add_get("/{tail:.*}", view)
    web.run_app(application, host="127.0.0.1", port=port, print=None)


def __getattr__(name):
    if name == "wrapped":
        from greenlane.hosts.asgi import Greenlane

        return Greenlane(asgi)
    if name == "celery":
        return orders()
    raise AttributeError(name)


def orders():
    """A Celery application whose worker gives itself some orders; the last one tells."""
    import json

    from celery import Celery, signals

    application = Celery("measured", broker="memory://")
    application.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)

    @application.task(name="order", acks_late=True)
    def order(number):
        time.sleep(0.001)
        if number == MANY:
            fresh = os.environ[FILE] + ".new"
            with open(fresh, "w", encoding="utf-8") as file:
                json.dump(inside(), file)
            os.rename(fresh, os.environ[FILE])

    @signals.worker_ready.connect(weak=False)
    def give(**_named):
        for number in range(1, MANY + 1):
            order.apply_async((number,))

    return application


MANY = 5

if __name__ == "__main__":
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "wsgi":
        from greenlane.hosts.wsgi import Greenlane

        serve(Greenlane(wsgi), port)
    elif kind == "plain":
        serve(wsgi, port)
    else:
        serve_aiohttp(port)
