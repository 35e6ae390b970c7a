"""waitress observed. It reads on its main thread and runs requests on others: the arrival is carried across."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder
from greenlane.hosts.observed.wsgi import ARRIVAL, observed
from greenlane.probes.patching import Patches, Place

__all__ = ["install", "uninstall"]

#: Attribute of a channel: (arrival ns, clock) of the bytes that it last read.
_READ: Final = "_greenlane_read"


def install() -> None:
    """Place the observer in waitress when it is imported. Idempotent."""
    _patches.install()


def uninstall() -> None:
    """Put it back. Idempotent."""
    _patches.uninstall()


def _server(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def __init__(self: Any, application: Any, *args: Any, **kwargs: Any) -> None:
            original(self, application if silent else observed(application, "waitress"), *args, **kwargs)

        return __init__

    patches.replace(module.BaseWSGIServer, "__init__", make)


def _channel(patches: Patches, module: ModuleType) -> None:
    recorder = Recorder()

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def received(self: Any, data: bytes) -> Any:
            if not silent and recorder.recording() and self.request is None:
                self.__dict__[_READ] = recorder.arrival()
            return original(self, data)

        return received

    patches.replace(module.HTTPChannel, "received", make)


def _task(patches: Patches, module: ModuleType) -> None:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def get_environment(self: Any) -> Any:
            environ = original(self)
            read = self.channel.__dict__.get(_READ)
            if read is not None and not silent:
                environ[ARRIVAL] = read
            return environ

        return get_environment

    patches.replace(module.WSGITask, "get_environment", make)


_PLAN: Final[dict[str, Place]] = {
    "waitress.server": _server,
    "waitress.channel": _channel,
    "waitress.task": _task,
}

_patches: Final = Patches(_PLAN)
