"""What a person sees of a worker: over the control socket, in `greenlane top`, and as counters."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any, Final

from greenlane._native import Recorder
from greenlane.export.prometheus import render
from greenlane.wiring import process
from greenlane_work.worker.flow import OrderFlow

__all__ = ["Status", "capped"]

#: Keys with metrics of their own: a label for each of 100,000 merchants overloads Prometheus.
_KEYS_MOST: Final = 100
#: What a row says of a key as `look` has it.
_OF_A_KEY: Final = (
    "key", "running", "parked", "limit", "breaker", "started", "ok", "failed", "timed_out", "refused",
)  # fmt: skip


class Status:
    """The worker's part of a control socket. Asked on the socket's thread, while the owner works."""

    def __init__(self, flow: OrderFlow, mode: str) -> None:
        self._flow = flow
        self._mode = mode

    def shown(self) -> dict[str, object]:
        """Give the field `tasks` of an answer; see `greenlane.control`."""
        flow = self._flow
        return {
            "mode": self._mode,
            "slots": flow.settings.task_slots,
            "running": flow.parked.running,
            "parked": flow.parked.parked,
            "most_parked": flow.parked.most_parked,
            "abandoned": flow.runner.abandoned(),
            "totals": self.counters(),
            "keys": self._rows(),
        }

    def breaker(self, key: str, wanted_open: bool) -> None:
        """Open or close a key's breaker by hand."""
        parked = self._flow.parked
        provider = parked.providers is not None and key.endswith("/")
        upstreams = parked.providers if parked.providers is not None and provider else parked.upstreams
        key = key.removesuffix("/") if provider else key

        def switch() -> None:
            self._flow.pauses.forget(key)
            (upstreams.open if wanted_open else upstreams.close)(key, time.monotonic_ns())
            self._flow.turn()

        self._flow.owner.post(switch)

    def text(self) -> str:
        """Give one scrape's answer."""
        running = process.running()
        counters = self.counters() if running is None else running.counters()
        return render(
            counters,
            () if running is None else running.learned(),
            turns=None if running is None else running.turns(),
            recorder=Recorder(),
            upstreams=capped(self._rows(), _KEYS_MOST),
            labels={"pid": str(os.getpid())},
        )

    def _rows(self) -> list[dict[str, Any]]:
        """A row for each key; a provider's name ends with a slash, and the orders that it let through are `running`."""
        parked, now_ns = self._flow.parked, time.monotonic_ns()
        rows = [_row(look, now_ns) for look in parked.upstreams.look()]
        if parked.providers is not None:
            rows += [{**_row(look, now_ns), "key": f"{look.key}/"} for look in parked.providers.look()]
        return rows

    def counters(self) -> dict[str, int]:
        """Give what is counted since the worker's start."""
        flow = self._flow
        ledger = flow.execution.ledger
        counted = dataclasses.asdict(flow.totals)
        return {name if name.startswith("calls_") else f"orders_{name}": count for name, count in counted.items()} | {
            "orders_acked": flow.line.acked,
            "orders_stale": flow.line.stale,
            "shares_asked": flow.store.counts.shares if flow.store is not None else 0,
            "store_waits": ledger.waits if ledger is not None else 0,
        }


def capped(rows: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Give the rows of the fullest keys, at most this many, and one of all others: sums, and the oldest of them."""
    rows = sorted(rows, key=lambda row: (-row["running"] - row["parked"], row["key"]))
    named, others = rows[:most], rows[most:]
    if not others:
        return named
    summed = {name: sum(row[name] for row in others) for name in ("running", "parked", "limit")}
    opened = any(row["breaker"] != "closed" for row in others)
    oldest_s = max(row["oldest_s"] for row in others)
    return [*named, {"key": "other", **summed, "oldest_s": oldest_s, "breaker": "open" if opened else "closed"}]


def _row(look: Any, now_ns: int) -> dict[str, Any]:
    return {name: getattr(look, name) for name in _OF_A_KEY} | {
        "oldest_s": round((now_ns - look.oldest_ns) / 1e9, 1) if look.oldest_ns else 0.0,
        "usual_ms": round(look.usual_ns / 1e6, 1),
        "failed_frac": round(look.failed_frac, 3),
        "slow_frac": round(look.slow_frac, 3),
    }
