"""The merchants of the balance keep an honest book of dishonest answers."""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenlane_tools.lab.processes import free_port
from pos.children import Process
from pos.conservation.books import Entry
from pos.conservation.merchant import Law

pytestmark = pytest.mark.slow
KINDS = ("keyed", "asked", "plain")


class Merchants:
    """One of each kind, each called over one connection that is kept while it can be."""

    def __init__(self, log: Path) -> None:
        self._ports = {kind: free_port() for kind in KINDS}
        said = {kind: {"port": port, "kind": kind} for kind, port in self._ports.items()}
        self.process = Process([sys.executable, "-m", "pos.conservation.merchant", json.dumps(said)], log)
        self.process.wait_for_port(self._ports["plain"])

    def ask(
        self, kind: str, method: str, path: str, content: object = None, timeout_s: float = 10, key: str = ""
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._ports[kind], timeout=timeout_s)
        try:
            body, headers = None if content is None else json.dumps(content), {"Idempotency-Key": key} if key else {}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, json.load(answer)
        finally:
            connection.close()

    def law(self, kind: str, **law: Any) -> None:
        assert self.ask(kind, "POST", "/law", vars(Law(**{"latency_ms": 1, **law})))[0] == 200

    def send(self, kind: str, order: str, timeout_s: float = 10, key: str = "") -> int:
        return self.ask(kind, "POST", "/orders", {"order": order}, timeout_s, key or order)[0]

    def entry(self, kind: str, order: str) -> Entry:
        return Entry(*self.ask(kind, "GET", "/effects")[1]["orders"][order])


@pytest.fixture(scope="module")
def merchants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Merchants]:
    started = Merchants(tmp_path_factory.mktemp("merchants") / "log")
    yield started
    started.process.end()


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_merchant_that_knows_keys_does_nothing_at_the_second_call(merchants: Merchants, kind: str) -> None:
    merchants.law(kind)
    assert [merchants.send(kind, "twice") for _ in range(2)] == [200, 200]
    assert merchants.entry(kind, "twice")[:3] == (1 if kind == "keyed" else 2, 2, 1)


def test_a_key_that_changes_with_each_call_is_no_key(merchants: Merchants) -> None:
    merchants.law("keyed")
    assert [merchants.send("keyed", "changing", key=key) for key in ("first", "second")] == [200, 200]
    assert merchants.entry("keyed", "changing").effects == 2


def test_only_a_plain_merchant_cannot_be_asked(merchants: Merchants) -> None:
    for kind in KINDS:
        merchants.law(kind)
        merchants.send(kind, "known")
    assert merchants.ask("plain", "GET", "/orders/known")[0] == 405
    for kind in ("keyed", "asked"):
        assert merchants.ask(kind, "GET", "/orders/known") == (200, {"done": True})
        assert merchants.ask(kind, "GET", "/orders/unknown") == (200, {"done": False})


@pytest.mark.parametrize(
    ("answer", "status", "effects", "told_ok"),
    [
        ("well", 200, 1, False),
        ("error", 500, 0, False),
        ("done_but_error", 500, 1, False),
        ("ok_but_nothing", 200, 0, True),
        ("twice", 200, 1, False),
        ("reset", 0, 0, False),
        ("reset_done", 0, 1, False),
        ("hang", 0, 1, False),
    ],
)
def test_each_answer_leaves_what_it_says(
    merchants: Merchants, answer: str, status: int, effects: int, told_ok: bool
) -> None:
    merchants.law("asked", answer=answer)
    order = f"order-{answer}"
    if status:
        assert merchants.send("asked", order) == status
    else:
        with pytest.raises((ConnectionResetError, TimeoutError)):
            merchants.send("asked", order, timeout_s=1)
    entry = merchants.entry("asked", order)
    assert (entry.effects, entry.calls, entry.told_ok) == (effects, 1, told_ok)
    assert bool(entry.first_effect_s) == bool(effects)


def test_a_caller_who_leaves_before_it_is_taken_in_has_had_no_effect(merchants: Merchants) -> None:
    merchants.law("asked", latency_ms=60_000)
    with pytest.raises(TimeoutError):
        merchants.send("asked", "left", timeout_s=0.3)
    entry = merchants.entry("asked", "left")
    assert (entry.effects, entry.calls) == (0, 1)


def test_a_share_of_calls_is_the_same_share_in_every_run(merchants: Merchants) -> None:
    merchants.law("asked", answer="error", frac=0.5)
    law = Law(answer="error", frac=0.5)
    wanted = [500 if law.of(f"s{number}", 0) == "error" else 200 for number in range(40)]
    assert [merchants.send("asked", f"s{number}") for number in range(40)] == wanted
    assert 10 < wanted.count(500) < 30
