"""The service as a program: `python -m feed.service --variant inline --addresses site.json --port 8000`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from feed import compiled
from feed.site import addresses_of
from feed.variants.ranking import VARIANTS, Given
from greenlane_tools.lab.ending import plainly

from .application import Options, application
from .stages import timed_loop


def main(argv: Sequence[str] | None = None) -> None:
    """Serves until it is ended."""
    parser = argparse.ArgumentParser(prog="python -m feed.service", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--variant", choices=(*VARIANTS, compiled.NAME), required=True)
    parser.add_argument("--addresses", type=Path, required=True, help="file that `python -m feed.site` wrote")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=3, help="worker processes, for variants that have them")
    parser.add_argument("--deadline-ms", type=float, default=Options.deadline_ms)
    given = parser.parse_args(argv)
    with plainly(f"serving {given.variant}", sys.stderr):
        _serve(given)


def _serve(given: argparse.Namespace) -> None:
    if given.variant == compiled.NAME:
        compiled.serve(given.addresses, given.port, given.deadline_ms)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    app = application(
        Given(addresses_of(given.addresses), given.workers), Options(given.variant, deadline_ms=given.deadline_ms)
    )
    web.run_app(app, host="127.0.0.1", port=given.port, print=None, access_log=None, loop=timed_loop())


if __name__ == "__main__":
    main()
