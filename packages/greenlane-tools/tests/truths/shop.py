"""A shop of six routes: what its verdict names is what helps most when it is changed.

    python -m tests.truths.shop

prints the pages' p95 as the shop is, with each of the other routes served elsewhere, and with Greenlane's worker.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from tests.oncall.load import Clients, together
from tests.oncall.situation import Scene, run
from tests.truths.truth import GTHREAD, PERMITS, Truth, service

from tests.servers import Postgres

#: Requests a second.
MIX = {"/page": 20, "/export": 1, "/picture": 2, "/invoice": 1, "/login": 2, "/price": 4}
OTHERS = ("/export", "/picture", "/invoice", "/login", "/price")


def _customers(clients: Clients, scene: Scene) -> None:
    for path in MIX:
        clients.ask(path)
    clients.seen.clear()
    together(*[lambda path=path, per_s=per_s: clients.paced(path, per_s, 8) for path, per_s in MIX.items()])


SHOP = service("shop", GTHREAD, _customers, 250, postgres=True)
WORKER = replace(SHOP, serve=PERMITS)
TRUTHS = {
    "shop": Truth(
        "Invoices are made in Python, and everything else waits for the GIL meanwhile.",
        SHOP, ("GET /page",), ("gil",), ("take_turns", "own_process"),
        ("more_threads", "off_loop", "to_thread", "larger_pool"), holder="GET /invoice",
        change="Greenlane's worker", changed=WORKER,
    ),
}  # fmt: skip


def p95_by_change(postgres: str) -> Iterator[tuple[str, float]]:
    """The pages' p95 in ms: "" = as it is, a path = that route is served elsewhere, "worker" = Greenlane's.

    Not p99, since that of 160 is nearly the longest.
    """
    changes = {"": SHOP, **{path: replace(SHOP, split=(path,)) for path in OTHERS}, "worker": WORKER}
    for name, each in changes.items():
        yield name, 1000 * run(each, None, postgres).clients.share("/page", 0.95)


def main() -> int:
    """Measure all."""
    with Postgres() as database:
        for name, p95_ms in p95_by_change(database.url):
            print(f"{name or 'as it is':<10} {p95_ms:>6.0f} ms", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
