"""The backend as a process: `python -m pos.backend --port 8000`, with POS_SURROUNDINGS in its environment."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from aiohttp import web

from greenlane.errors import GreenlaneError
from pos.surroundings import Surroundings

from .application import Backend
from .publisher import Publisher


def main() -> int:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m pos.backend", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--per-s", type=float, default=0.0, help="generated orders (none)")
    parser.add_argument("--workers", type=Path, help="folder of the workers' control sockets")
    given = parser.parse_args()
    try:
        around = Surroundings.here()
    except GreenlaneError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    app = Backend(around, given.per_s, Publisher(around), given.workers).application()
    try:
        web.run_app(app, host="127.0.0.1", port=given.port, print=None, access_log=None)
    except OSError as error:
        rule = "expected a port of 127.0.0.1 that is free and may be used"
        sys.stderr.write(f"serve: port={given.port}, {rule} ({error.strerror})\nhint: give another port\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
