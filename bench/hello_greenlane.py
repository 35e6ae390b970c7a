"""`hello` under the middleware: the one line that it takes. And, for a comparison within one process, without it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hello import application as hello

from greenlane.hosts.wsgi import Greenlane
from greenlane.wiring import process

wrapped = Greenlane(hello)
_serves: Callable[..., Iterable[bytes]] = wrapped


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    """Serve; `/bare` takes the middleware and its probes out of the requests after it, `/wrapped` puts them back."""
    global _serves
    mode = {"/bare": "off", "/wrapped": "on"}.get(environ["PATH_INFO"])
    running = process.running()
    if mode is not None and running is not None:
        running.set_mode(mode)
        _serves = wrapped if mode == "on" else hello
    return _serves(environ, start_response)
