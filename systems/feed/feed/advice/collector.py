"""The garbage collector: as it is, with what was there at the start frozen, and off while a request is computed."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from feed.features import features_of
from feed.record import from_json
from feed.world.catalogue import NOW_S

from .payload import Payload
from .row import Row, costs, rows


@dataclass
class Pauses:
    """What the collector did meanwhile."""

    calls: int = 0
    collections: int = 0
    whole: int = 0
    longest_ns: int = 0
    _began_ns: int = 0

    def __call__(self, phase: str, about: dict[str, int]) -> None:
        """One of gc.callbacks."""
        if phase == "start":
            self._began_ns = time.monotonic_ns()
            return
        self.collections += 1
        self.whole += about["generation"] == 2
        self.longest_ns = max(self.longest_ns, time.monotonic_ns() - self._began_ns)

    def said(self) -> str:
        """For the table."""
        calls = max(1, self.calls)
        return (
            f"{self.collections / calls:.3g} collections a request, {self.whole / calls:.2g} of everything; "
            f"longest pause {self.longest_ns / 1e6:.1f} ms"
        )


def collector(payload: Payload, repetitions: int) -> list[Row]:
    """Decoding and features in Python, which make 150,000 objects a request; native code makes none."""
    values, user = payload.json, payload.user
    assert payload.items, "the heap of a service that has started"

    def request() -> object:
        return features_of([from_json(value) for value in values], user, NOW_S)

    pauses = {name: Pauses() for name in ("as it is", "gc.freeze at the start", "off during a request")}

    def counted(name: str, around: Callable[[], object]) -> Callable[[], object]:
        def run() -> object:
            pauses[name].calls += 1
            gc.callbacks.append(pauses[name])
            try:
                return around()
            finally:
                gc.callbacks.remove(pauses[name])

        return run

    def frozen() -> object:
        with _frozen():
            return request()

    def off() -> object:
        with _off():
            return request()

    around = {"as it is": request, "gc.freeze at the start": frozen, "off during a request": off}
    found = costs({name: counted(name, run) for name, run in around.items()}, repetitions)
    notes = {name: one.said() for name, one in pauses.items()}
    stage = f"decode {len(values):,} items and make features, in Python"
    return rows("collector", stage, found, notes=notes)


@contextmanager
def _frozen() -> Iterator[None]:
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def _off() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
