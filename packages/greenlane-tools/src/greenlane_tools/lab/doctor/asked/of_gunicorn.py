"""Asks a gunicorn what its arguments, environment and configuration file come to. Run as a program, any gunicorn.

    python of_gunicorn.py FD ARGUMENTS…

writes one JSON object to the file descriptor FD. The configuration file runs, as gunicorn itself would run it; the
application is not imported.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from typing import Any

# By the name of a class among the worker's ancestors, most special first.
_KINDS = (
    ("UvicornWorker", "uvicorn"),
    ("ASGIWorker", "asgi"),
    ("GeventWorker", "gevent"),
    ("EventletWorker", "eventlet"),
    ("TornadoWorker", "tornado"),
    ("ThreadWorker", "gthread"),
    ("SyncWorker", "sync"),
)


def main(descriptor: int, arguments: list[str]) -> None:
    """Asks and writes."""
    sys.argv = ["gunicorn", *arguments]
    # This script's own folder is no part of the command's path.
    sys.path[0] = os.getcwd()
    import gunicorn
    from gunicorn.app.wsgiapp import WSGIApplication

    application = WSGIApplication("%(prog)s [OPTIONS] [APP_MODULE]", prog="gunicorn")
    config = application.cfg
    worker = _worker(config)
    said = {
        "server": "gunicorn",
        "version": gunicorn.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "settings": _settings(config),
        "addresses": [_address(one) for one in config.address],
        **worker,
        "mechanics": _mechanics(worker),
        "versions": _versions(("gevent", "uvloop", "uvicorn", "greenlane")),
    }
    with os.fdopen(descriptor, "w") as out:
        json.dump(said, out, default=str)


def _settings(config: Any) -> dict[str, dict[str, Any]]:
    """Value and origin of each. The last origin wins: gunicorn reads file, then environment, then arguments."""
    parser = config.parser()
    spoken = vars(parser.parse_args())
    from_environment = vars(parser.parse_args(config.get_cmd_args_from_env()))
    found = {}
    for name, setting in config.settings.items():
        value = setting.get()
        if callable(value):
            continue
        if spoken.get(name) is not None:
            origin = "command line"
        elif from_environment.get(name) is not None:
            origin = "GUNICORN_CMD_ARGS"
        elif value != type(setting)().get():
            origin = "configuration file"
        elif name == "workers" and "WEB_CONCURRENCY" in os.environ:
            origin = "WEB_CONCURRENCY"
        else:
            origin = "default"
        found[name] = {"value": value, "origin": origin}
    found["workers"]["value"] = config.workers
    return found


def _address(address: Any) -> str:
    if isinstance(address, tuple):
        return "%s:%s" % (address[0], address[1])  # noqa: UP031 # old interpreters read this
    return "fd:%d" % address if isinstance(address, int) else "unix:%s" % address  # noqa: UP031


def _worker(config: Any) -> dict[str, Any]:
    """The worker class that would run, and what kind it is."""
    named = config.worker_class_str
    try:
        worker = importlib.import_module("gunicorn.util").load_class(
            "gunicorn.workers.gthread.ThreadWorker" if named == "gthread" else config.settings["worker_class"].get()
        )
    except Exception as error:
        reason = [line for line in str(error).strip().splitlines() if line.strip(" []")]
        return {"worker_class": named, "kind": "unknown", "failure": reason[-1] if reason else repr(error)}
    # Greenlane's worker is built on gthread's and limits requests instead of connections: those rules are not its own.
    ours = worker.__module__.startswith("greenlane.")
    ancestors = set() if ours else {one.__name__ for one in worker.__mro__}
    kind = next((kind for name, kind in _KINDS if name in ancestors), "unknown")
    return {"worker_class": named, "kind": kind, "failure": ""}


def _mechanics(worker: dict[str, Any]) -> dict[str, Any]:
    """What this gunicorn's own source does: no table of versions is as sure, and forks have it patched."""
    arbiter = importlib.import_module("gunicorn.arbiter").Arbiter
    found: dict[str, Any] = {
        "socket_per_worker": "create_sockets" in inspect.getsource(arbiter.spawn_worker),
        "backlog_metric": "enable_backlog_metric" in inspect.getsource(arbiter),
        "gevent_patched": _gevent_patched(),
    }
    if worker["kind"] == "gevent":
        module = importlib.import_module("gunicorn.workers.ggevent")
        found["max_accept_one"] = "max_accept" in inspect.getsource(module)
    if worker["kind"] == "asgi":
        module = importlib.import_module("gunicorn.workers.gasgi")
        protocol = importlib.import_module("gunicorn.asgi.protocol")
        text = inspect.getsource(module) + inspect.getsource(protocol)
        found["asgi_limits"] = "worker_connections" in text.replace(
            "self.worker_connections = self.cfg.worker_connections", ""
        ).replace("Use worker_connections instead", "")
    return found


def _gevent_patched() -> bool:
    """The configuration file has patched already."""
    monkey = sys.modules.get("gevent.monkey")
    return bool(monkey is not None and monkey.is_module_patched("socket"))


def _versions(names: tuple[str, ...]) -> dict[str, str]:
    try:
        from importlib import metadata
    except ImportError:
        return {}
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
