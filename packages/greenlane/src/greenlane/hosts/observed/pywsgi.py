"""gevent's WSGI server observed, used directly (isso, locust, Flask-SocketIO, Bottle's `server="gevent"`).

A job opens when a request's head is read, and closes when its response is written and what is left of its body is read.
One of gunicorn's workers uses this server, too. Its application is observed by `gunicorn`, but gets no second job.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Switches
from greenlane.hosts.observed.wsgi import ARRIVAL, Requests, status_of
from greenlane.probes.patching import Patches

__all__ = ["place"]

#: Attribute of a connection: (arrival ns, clock) of the bytes that were read last before a request on it.
_READ: Final = "_greenlane_read"
#: Module of a connection's class -> how its requests are opened: the first one, and those whose greenlet is older.
_OPENERS: Final = {
    module: (Requests(host, Switches.spawned_ns), Requests(host))
    for module, host in (("gevent.pywsgi", "gevent.pywsgi"), ("gunicorn.workers.ggevent", "gunicorn.gevent"))
}

_recorder: Final = Recorder()


def _handle_one_response(original: Callable[[Any], Any], silent: list[bool]) -> Callable[[Any], Any]:
    def handle_one_response(self: Any) -> Any:
        if silent or not _recorder.recording():
            return original(self)
        job = _open(self)
        try:
            return original(self)
        finally:
            status = self.status
            _recorder.close(job, status_of(status.decode("latin-1") if isinstance(status, bytes) else status))

    return handle_one_response


def _open(connection: Any) -> int:
    before = connection.__dict__.get(_READ)
    read = _recorder.arrival(connection.socket.fileno())
    if not read[0] and before is not None:
        read = before  # Pipelined: these bytes came with the request before.
    connection.__dict__[_READ] = read
    first, later = _OPENERS.get(type(connection).__module__, _OPENERS["gevent.pywsgi"])
    environ = connection.environ
    environ[ARRIVAL] = read
    job = (first if before is None else later).open(environ)
    environ.pop(ARRIVAL, None)
    return job


def place(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `gevent.pywsgi`."""
    patches.replace(module.WSGIHandler, "handle_one_response", _handle_one_response)
