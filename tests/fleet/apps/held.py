"""A WSGI application whose requests last until the test lets them go: no test of order needs a time.

`/…/hold?NAME` writes `NAME.begun` into the directory of the variable HELD, with the process id, and ends when
`NAME.let_go` is there. Everything else is answered at once.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["HELD"])


def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    if environ["PATH_INFO"].endswith("/hold"):
        name = environ["QUERY_STRING"]
        with (FOLDER / "order").open("a") as order:
            order.write(f"{name}\n")
        (FOLDER / f"{name}.begun").write_text(str(os.getpid()))
        while not (FOLDER / f"{name}.let_go").exists():
            time.sleep(0.002)
    start_response("200 OK", [("Content-Type", "text/plain")])
    said = [os.getpid(), environ["REMOTE_ADDR"], environ["wsgi.url_scheme"], environ.get("HTTP_X_GREENLANE_LANE", "")]
    return [" ".join(map(str, said)).encode()]
