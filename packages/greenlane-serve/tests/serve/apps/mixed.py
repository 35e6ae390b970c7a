"""A WSGI application of two kinds of requests: `/burn` computes for 30 ms, everything else sleeps for 5 ms."""

from __future__ import annotations

import os
import time
from typing import Any


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    if environ["PATH_INFO"].startswith("/burn"):
        until_s = time.thread_time() + 0.03
        while time.thread_time() < until_s:
            pass
    else:
        time.sleep(0.005)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {environ.get('HTTP_X_GREENLANE_LANE', '')}".encode()]
