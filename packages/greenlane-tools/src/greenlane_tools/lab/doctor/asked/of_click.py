"""Asks uvicorn or granian what arguments and environment come to: both read them by click.

    python of_click.py FD SERVER ARGUMENTS…

writes one JSON object to the file descriptor FD; nothing of the application is imported.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from typing import Any

_COMMANDS = {"uvicorn": ("uvicorn.main", "main"), "granian": ("granian.cli", "cli")}
_MARKS = {"COMMANDLINE": "command line", "ENVIRONMENT": "environment", "DEFAULT": "default", "DEFAULT_MAP": "default"}


def main(descriptor: int, server: str, arguments: list[str]) -> None:
    """Asks and writes."""
    sys.path[0] = os.getcwd()
    module, name = _COMMANDS[server]
    command = getattr(importlib.import_module(module), name)
    context = command.make_context(server, list(arguments), auto_envvar_prefix=server.upper())
    settings = {
        name: {"value": getattr(value, "value", value), "origin": _origin(context, name)}
        for name, value in context.params.items()
    }
    from importlib import metadata

    versions = {}
    for distribution in (server, "uvloop", "httptools"):
        try:
            versions[distribution] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    if server == "uvicorn" and settings["workers"]["value"] is None and "WEB_CONCURRENCY" in os.environ:
        settings["workers"] = {"value": int(os.environ["WEB_CONCURRENCY"]), "origin": "WEB_CONCURRENCY"}
    said = {
        "server": server,
        "version": versions[server],
        "python": ".".join(map(str, sys.version_info[:3])),
        "settings": settings,
        "addresses": [_address(settings)],
        "worker_class": server,
        "kind": server,
        "failure": "",
        "mechanics": {"accepts_backlog_at_once": _asyncio_accepts_in_a_loop()},
        "versions": versions,
    }
    with os.fdopen(descriptor, "w") as out:
        json.dump(said, out, default=str)


def _origin(context: Any, name: str) -> str:
    source = context.get_parameter_source(name)
    return _MARKS.get(getattr(source, "name", ""), "default")


def _address(settings: dict[str, dict[str, Any]]) -> str:
    if uds := settings.get("uds", {}).get("value"):
        return f"unix:{uds}"
    if (descriptor := settings.get("fd", {}).get("value")) is not None:
        return f"fd:{descriptor}"
    return f"{settings['host']['value']}:{settings['port']['value']}"


def _asyncio_accepts_in_a_loop() -> bool:
    from asyncio.selector_events import BaseSelectorEventLoop

    return "range(backlog" in inspect.getsource(BaseSelectorEventLoop._accept_connection)  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
