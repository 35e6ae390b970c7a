"""One process of upstreams; see server.py for what it serves. OFFERS_ITERATIONS as in pricing."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from offers import table, work
from offers.upstreams.server import Server, serve


def main(argv: Sequence[str] | None = None) -> None:
    """Serves until it is ended; exit code 2 for a name that is not in the table."""
    parser = argparse.ArgumentParser(prog="python -m offers.upstreams", description="upstreams of pricing and offers")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--names", required=True, help="zones,rules")
    given = parser.parse_args(argv)
    known = table.read().upstreams
    names = [name.strip() for name in given.names.split(",")]
    if unknown := [name for name in names if name not in known]:
        parser.error(f"start upstreams: --names={unknown[0]!r}, expected some of {', '.join(known)}")
    server = Server([known[name] for name in names], work.from_environment()["burn"])
    asyncio.run(serve(server, given.port))


if __name__ == "__main__":
    main()
