"""The recording of an unchanged program: the recorder, and the observers of the hosts that the program imports."""

from __future__ import annotations

import os
from typing import Final

from greenlane.errors import GreenlaneError
from greenlane.probes.patching import Patches
from greenlane.settings import load
from greenlane.wiring import recording as wired

__all__ = ["HOSTS", "start"]

#: What `greenlane record` sets. Other settings are the program's own; a wrong one must not fail what only records.
_VARIABLES: Final = ("RECORD_FOLDER", "RECORD_ON", "RECORD_MAX_MB", "RECORD_STACKS", "CONTROL_DIR")

#: Each host's observer is loaded, and placed, when the program imports that host.
HOSTS: Final = Patches(
    {
        "gunicorn.workers.base": "greenlane.hosts.observed.gunicorn:place",
        "http.server": "greenlane.hosts.observed.http_server:place",
        "wsgiref.simple_server": "greenlane.hosts.observed.wsgi_servers:place_wsgiref",
        "waitress.server": "greenlane.hosts.observed.wsgi_servers:place_waitress",
        "waitress.channel": "greenlane.hosts.observed.wsgi_servers:place_waitress_channel",
        "waitress.task": "greenlane.hosts.observed.wsgi_servers:place_waitress_task",
        "cheroot.wsgi": "greenlane.hosts.observed.wsgi_servers:place_cheroot",
        "celery.signals": "greenlane.hosts.observed.celery:place",
        **dict.fromkeys(
            (f"uvicorn.protocols.http.{name}_impl" for name in ("h11", "httptools", "zttp", "zttp_h2")),
            "greenlane.hosts.observed.asgi:place_uvicorn",
        ),
        "uvicorn.server": "greenlane.hosts.observed.asgi:place_uvicorn_end",
        "hypercorn.app_wrappers": "greenlane.hosts.observed.asgi:place_hypercorn",
        "quart.app": "greenlane.hosts.observed.asgi:place_quart",
        "aiohttp.web_protocol": "greenlane.hosts.observed.aiohttp:place",
    }
)


def start() -> str:
    """Start what the environment asks for, with the hosts' observers; give why it could not, "" if it could."""
    names = [f"GREENLANE_{name}" for name in _VARIABLES]
    environ = {name: os.environ[name] for name in names if name in os.environ}
    try:
        settings = load(environ={**environ, "GREENLANE_CONFIG": ""})
        wired.start_recording(settings, HOSTS)
    except GreenlaneError as error:
        return str(error).partition("\n")[0]
    return ""
