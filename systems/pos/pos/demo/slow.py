"""The slow-merchant run: orders for ten merchants in an open loop, of which one takes half a minute a call."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

from greenlane_tools.lab.run.talk import Talk
from pos.journal import Entry, Event
from pos.merchants.names import SLOW
from pos.site import Site

from .load import OpenLoop
from .turn import effects, ended, failures, lost, turn

#: What is done so long after the last publish counts.
SETTLE_S: Final = 5.0
_TAIL_S: Final = 0.3


def slow(
    site: Site, contender: str, prefix: str, per_s: float, seconds: float, talk: Talk, settle_s: float = SETTLE_S
) -> dict[str, Any]:  # fmt: skip
    """One run, raw: a line for each order, and what the worker used."""
    merchants = site.around.names()
    site.forget()
    warm = [(f"{prefix}w-{number}", name) for number, name in enumerate(merchants) if name != SLOW]
    for order, merchant in warm:
        site.publish(order, merchant)
    with turn(site, contender) as running:
        start_s = running.first()
        running.until_done(len(warm))
        load = OpenLoop(site.app, prefix, merchants, per_s, seconds)
        load.start()
        try:
            last_ns = load.due_ns(len(load.orders) - 1)
            talk.progress(f"{contender}: {len(load.orders)} orders in {seconds:g} s, then {settle_s:g} s")
            until_ns = last_ns + int(settle_s * 1e9)
            used = running.used(until_ns)
            lag_ms = load.wait()
        finally:
            load.stop()
        running.used(until_ns + int(_TAIL_S * 1e9))
        running_most = {name: site.effects(name)["running_most"] for name in merchants}
    entries = running.entries
    missing = lost(site, [order for order, _ in load.orders], ended(entries))
    orders = _orders(load, entries, until_ns)
    return {
        "contender": contender, "orders": orders, "start_s": start_s, "lag_ms": lag_ms,
        "until_ms": (until_ns - load.due_ns(0)) / 1e6, "running_most": running_most,
        "lost": missing, "errors": failures(running.entries, prefix), **effects(site, prefix, merchants),
        "usage": vars(used),
    }  # fmt: skip


def _orders(load: OpenLoop, entries: list[Entry], until_ns: int) -> list[list[Any]]:
    """[merchant, due ms since the first, begun after ms, done after ms] of each; None = not until then."""
    began: dict[str, int] = {}
    done: dict[str, int] = {}
    for entry in entries:
        if entry.at_ns <= until_ns and entry.event in (Event.BEGAN, Event.DONE):
            (began if entry.event == Event.BEGAN else done).setdefault(entry.order, entry.at_ns)

    def after_ms(when: Mapping[str, int], order: str, due_ns: int) -> float | None:
        return (when[order] - due_ns) / 1e6 if order in when else None

    lines: list[list[Any]] = []
    for number, (order, merchant) in enumerate(load.orders):
        due_ns = load.due_ns(number)
        due_ms = (due_ns - load.due_ns(0)) / 1e6
        lines.append([merchant, due_ms, after_ms(began, order, due_ns), after_ms(done, order, due_ns)])
    return lines


def waiting_most(orders: list[list[Any]]) -> int:
    """The most of these orders that were published and not begun, at any moment."""
    changes = [(due_ms, 1) for _, due_ms, _, _ in orders]
    changes += [(due_ms + began_ms, -1) for _, due_ms, began_ms, _ in orders if began_ms is not None]
    return max(accumulate(change for _, change in sorted(changes)), default=0)
