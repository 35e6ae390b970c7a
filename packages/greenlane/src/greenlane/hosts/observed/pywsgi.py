"""gevent's WSGI server observed, used directly (isso, locust, Flask-SocketIO, Bottle's `server="gevent"`).

A job opens when a request's head is read, and closes when its response is written. gunicorn's workers on gevent use
this server, too: their applications are observed already (`gunicorn`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Switches
from greenlane.hosts.observed.wsgi import ARRIVAL, Observed, Requests, status_of
from greenlane.probes.patching import Patches

__all__ = ["place"]

#: Attribute of a connection: (arrival ns, clock) of the bytes that were read last before a request on it.
_READ: Final = "_greenlane_read"
_HOST: Final = "gevent.pywsgi"

_recorder: Final = Recorder()
_first: Final = Requests(_HOST, Switches.spawned_ns)
#: Of a connection that had requests before, whose greenlet is older than what it reads.
_later: Final = Requests(_HOST)


def _handle_one_response(original: Callable[[Any], Any], silent: list[bool]) -> Callable[[Any], Any]:
    def handle_one_response(self: Any) -> Any:
        if silent or not _recorder.recording() or isinstance(self.application, Observed):
            return original(self)
        job = _open(self)
        try:
            return original(self)
        finally:
            status = self.status
            _recorder.close(job, status_of(status.decode("latin-1") if isinstance(status, bytes) else status))

    return handle_one_response


def _open(connection: Any) -> int:
    connection_had = connection.__dict__.get(_READ)
    read = _recorder.arrival(connection.socket.fileno())
    if not read[0] and connection_had is not None:
        read = connection_had  # Pipelined: these bytes came with the request before.
    connection.__dict__[_READ] = read
    environ = connection.environ
    environ[ARRIVAL] = read
    job = (_first if connection_had is None else _later).open(environ)
    environ.pop(ARRIVAL, None)
    return job


def place(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `gevent.pywsgi`."""
    patches.replace(module.WSGIHandler, "handle_one_response", _handle_one_response)
