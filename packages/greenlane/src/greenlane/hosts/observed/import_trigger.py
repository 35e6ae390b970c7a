"""Starts the recording of an unchanged program when it may have something to record: with a host, or `record.job`.

A program that imports no server that we observe, and not `greenlane.record`, has no jobs. It loads no more of us than
this file. Nothing is replaced: the one finder in `sys.meta_path` goes when one of these modules is there, and the
import that brought it is through: what is to be observed is whole then.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as `typing` has it, which every Python program would load for it

if TYPE_CHECKING:
    from typing import Any, Final

__all__ = ["OBSERVERS", "UNOBSERVED", "start_when_needed"]

#: Module of a host -> what observes it: loaded, and placed, when the program imports that host.
OBSERVERS = {
    "gunicorn.workers.base": "greenlane.hosts.observed.gunicorn:place",
    "gunicorn.asgi.protocol": "greenlane.hosts.observed.asgi:place_gunicorn",
    "http.server": "greenlane.hosts.observed.http_server:place",
    "wsgiref.simple_server": "greenlane.hosts.observed.wsgi_servers:place_wsgiref",
    "waitress.server": "greenlane.hosts.observed.wsgi_servers:place_waitress",
    "waitress.channel": "greenlane.hosts.observed.wsgi_servers:place_waitress_channel",
    "waitress.task": "greenlane.hosts.observed.wsgi_servers:place_waitress_task",
    "cheroot.wsgi": "greenlane.hosts.observed.wsgi_servers:place_cheroot",
    "gevent.pywsgi": "greenlane.hosts.observed.pywsgi:place",
    "celery.signals": "greenlane.hosts.observed.celery:place",
    "uvicorn.protocols.http.h11_impl": "greenlane.hosts.observed.asgi:place_uvicorn",
    "uvicorn.protocols.http.httptools_impl": "greenlane.hosts.observed.asgi:place_uvicorn",
    "uvicorn.protocols.http.zttp_impl": "greenlane.hosts.observed.asgi:place_uvicorn",
    "uvicorn.protocols.http.zttp_h2_impl": "greenlane.hosts.observed.asgi:place_uvicorn",
    "uvicorn.server": "greenlane.hosts.observed.asgi:place_uvicorn_end",
    "hypercorn.asyncio.tcp_server": "greenlane.hosts.observed.asgi:place_hypercorn_connection",
    "hypercorn.app_wrappers": "greenlane.hosts.observed.asgi:place_hypercorn",
    "daphne.server": "greenlane.hosts.observed.daphne:place",
    "granian.wsgi": "greenlane.hosts.observed.granian:place_wsgi",
    "granian.asgi": "greenlane.hosts.observed.granian:place_asgi",
    "granian.rsgi": "greenlane.hosts.observed.granian:place_rsgi",
    "granian._futures": "greenlane.hosts.observed.granian:place_futures",
    "quart.app": "greenlane.hosts.observed.asgi:place_quart",
    "aiohttp.web_protocol": "greenlane.hosts.observed.aiohttp:place",
    "tornado.httpserver": "greenlane.hosts.observed.tornado:place",
}

#: Modules of servers that are not observed, and what servers are made with: named where a recording has no jobs.
UNOBSERVED: Final = (
    *("bjoern", "eventlet", "grpc", "grpclib", "meinheld", "robyn", "sanic", "socketify", "trio"),
    *("twisted.internet", "uwsgi", "websockets", "zmq", "asyncio", "gevent.server", "socketserver"),
)

#: Starts a program with a `sitecustomize` of its own before ours, which does not look for others. The recording of the
#: launcher puts ours first again.
_LAUNCHER: Final = "opentelemetry.instrumentation.auto_instrumentation"
_NAMES: Final = (*OBSERVERS, "greenlane.record", _LAUNCHER)


def start_when_needed(folder: str) -> None:
    """Record into `folder`, once the program has imported what a service needs."""
    # Asked now: what answers does so on the thread that starts an interpreter.
    is_main = _is_main_interpreter()
    if _is_needed():
        _start(folder, is_main)
    else:
        sys.meta_path.insert(0, _ImportTrigger(folder, is_main))


def attach(wanted: Any) -> None:
    """Record this process, which serves, until `detach`; see `program.attach`."""
    from greenlane.hosts.observed import program

    program.attach(OBSERVERS, UNOBSERVED, wanted)


def detach() -> None:
    """End what `attach` began, and put everything back. Idempotent."""
    from greenlane.hosts.observed import program

    program.detach()


def _is_needed() -> bool:
    return any(name in sys.modules for name in _NAMES)


class _ImportTrigger:
    """Sees each import that is not part of another one, and looks when it is through."""

    def __init__(self, folder: str, is_main: bool) -> None:
        self._folder = folder
        self._is_main = is_main
        self._inside = False
        self._noted: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Let the others find it; see `importlib.abc.MetaPathFinder`."""
        if self._inside:
            return None
        self._inside = True
        try:
            found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path) if finder is not self)
            spec = next((spec for spec in found if spec is not None), None)
        finally:
            self._inside = False
        if spec is not None and not isinstance(spec.loader, type):  # not what is built in
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        execute: Any = getattr(loader, "exec_module", None)

        def exec_module(module: Any) -> None:
            del loader.exec_module
            self._inside = True
            try:
                execute(module)
            finally:
                self._inside = False
                self._look()

        if execute is not None:
            loader.exec_module = exec_module

    def _look(self) -> None:
        if self._inside:
            return
        if _is_needed():
            self._inside = True  # for good
            _start(self._folder, self._is_main)
            from greenlane.probes.imports import take_out

            take_out(self)
        else:
            self._note_servers()

    def _note_servers(self) -> None:
        """Leave an empty file for each server that is not observed: `greenlane record` names it at its end."""
        for name in UNOBSERVED:
            if name in sys.modules and name not in self._noted:
                self._noted.add(name)
                try:
                    os.close(os.open(os.path.join(self._folder, f"server-{name}"), os.O_CREAT | os.O_CLOEXEC, 0o600))
                except OSError:  # the recording is over, or the program has another root by now
                    return


def _start(folder: str, is_main: bool) -> None:
    if not is_main:
        _say_skipped(folder, "subinterpreters are left alone, the main interpreter is recorded")
        return
    try:
        from greenlane.hosts.observed import program

        why = program.start(OBSERVERS, UNOBSERVED)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    if why:
        _say_skipped(folder, why)


def _is_main_interpreter() -> bool:
    import _thread

    if hasattr(_thread, "_is_main_interpreter"):  # CPython 3.12
        return bool(_thread._is_main_interpreter())
    import _signal  # type: ignore[import-not-found] # `signal` would load more

    try:
        _signal.signal(0, 0)
    except ValueError as error:  # "signal number out of range", or that this is not the main interpreter
        return "range" in str(error)
    return True


def _say_skipped(folder: str, why: str) -> None:
    """Say why this program is not recorded: once a recording and reason; `greenlane record` repeats it at its end."""
    note = os.path.join(folder, "skipped-" + "".join(letter if letter.isalnum() else "-" for letter in why)[:100])
    try:
        with open(note, "x", encoding="utf-8") as stream:
            stream.write(why)
    except OSError:
        return
    os.write(2, f"greenlane record: {sys.executable} is not recorded: {why}\n".encode())
