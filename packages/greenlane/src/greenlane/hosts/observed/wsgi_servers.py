"""WSGI servers that take an application, observed: waitress, cheroot (CherryPy's server), wsgiref.

waitress reads on its main thread and runs requests on others: each request carries its arrival across.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder
from greenlane.hosts.observed.wsgi import ARRIVAL, observed
from greenlane.probes.patching import Patches

__all__ = ["place_cheroot", "place_waitress", "place_waitress_channel", "place_waitress_task", "place_wsgiref"]

#: Attribute of a request: (arrival ns, clock) of the bytes that its head ended in; of a channel while it reads.
_READ: Final = "_greenlane_read"


def place_waitress(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `waitress.server`."""

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def __init__(self: Any, application: Any, *args: Any, **kwargs: Any) -> None:
            original(self, application if silent else observed(application, "waitress"), *args, **kwargs)

        return __init__

    patches.replace(module.BaseWSGIServer, "__init__", make)


def place_waitress_channel(patches: Patches, module: ModuleType) -> None:
    """Note the arrival in `waitress.channel`, which reads on the main thread."""
    recorder = Recorder()

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def received(self: Any, data: bytes) -> Any:
            if silent or not recorder.recording():
                return original(self, data)
            arrival = recorder.arrival(self.socket.fileno())
            if self.request is not None and not self.request.headers_finished:
                self.request.__dict__[_READ] = arrival
            self.__dict__[_READ] = arrival  # for a request that its thread takes before it is marked here
            try:
                return original(self, data)
            finally:
                for request in (*self.requests, self.request):
                    if request is not None:
                        request.__dict__.setdefault(_READ, arrival)
                del self.__dict__[_READ]

        return received

    patches.replace(module.HTTPChannel, "received", make)


def place_waitress_task(patches: Patches, module: ModuleType) -> None:
    """Carry it to the thread that runs the request, in `waitress.task`."""

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def get_environment(self: Any) -> Any:
            environ = original(self)
            read = self.request.__dict__.get(_READ) or self.channel.__dict__.get(_READ)
            if read is not None and not silent:
                environ[ARRIVAL] = read
            return environ

        return get_environment

    patches.replace(module.WSGITask, "get_environment", make)


def place_cheroot(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `cheroot.wsgi`."""

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def __init__(self: Any, bind_addr: Any, wsgi_app: Any, *args: Any, **kwargs: Any) -> None:
            original(self, bind_addr, wsgi_app if silent else observed(wsgi_app, "cheroot"), *args, **kwargs)

        return __init__

    patches.replace(module.Server, "__init__", make)


def place_wsgiref(patches: Patches, module: ModuleType) -> None:
    """Place the observer in `wsgiref.simple_server`."""

    # Its request handler has a `handle` of its own, which does not come by `handle_one_request`.
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def set_app(self: Any, application: Any) -> Any:
            return original(self, application if silent else observed(application, "wsgiref"))

        return set_app

    patches.replace(module.WSGIServer, "set_app", make)
