"""gevent's WSGI server observed, used directly (isso, locust, Flask-SocketIO, Bottle's `server="gevent"`).

A job opens when a request's head is read, and closes when its response is written and what is left of its body is read.
One of gunicorn's workers uses this server, too. Its application is observed by `gunicorn`, but gets no second job.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Switches
from greenlane.hosts.observed.wsgi import Requests, status_of
from greenlane.probes.patching import Patches

__all__ = ["place"]

_requests: Final = Requests("gevent.pywsgi", Switches.spawned_ns)
_gunicorns: Final = Requests("gunicorn.gevent", Switches.spawned_ns)


def _handle_one_response(original: Callable[[Any], Any], silent: list[bool]) -> Callable[[Any], Any]:
    def handle_one_response(self: Any) -> Any:
        if silent:
            return original(self)
        requests = _gunicorns if type(self).__module__ == "gunicorn.workers.ggevent" else _requests
        job = requests.open(self.environ)
        try:
            return original(self)
        finally:
            status = self.status
            requests.close(job, status_of(status.decode("latin-1") if isinstance(status, bytes) else status))

    return handle_one_response


def place(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `gevent.pywsgi`."""
    patches.replace(module.WSGIHandler, "handle_one_response", _handle_one_response)
