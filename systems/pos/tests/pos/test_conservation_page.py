"""The page of conservation says what its rows say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pos.conservation.books import balanced
from pos.conservation.cell import Outcome
from pos.conservation.command import page, told

BOOKS = replace(balanced(["a", "b"], [], [], []), lost=0, done=2)
OURS = Outcome(
    contender="greenlane", fault="broker-kill", balance=BOOKS, recovered_s=1.0, standstill_s=2.0, rest_s=3.0, end_s=4.0,
    stuck=False, restarts=0, exit_codes=(0, 0), published_again=5, on_their_way=7, deaths=0, steps=3,
)  # fmt: skip


def recorded(*outcomes: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(told(outcomes)))
    return found


def test_the_sum_is_of_ours_and_the_table_of_all() -> None:
    early = replace(OURS, contender="gevent-200-early", balance=replace(BOOKS, done=1, lost=1))
    text = page(recorded(OURS, early))
    assert "Greenlane's worker, 1 runs, 2 orders: 2 done, 0 dead letters, 0 lost" in text
    assert "| **broker-kill**: SIGKILL of the broker" in text
    assert "`greenlane` | 7 | 2 | 2 | 0 | 0 | 0 | 0 | 2.0 | even |" in text
    assert "`gevent-200-early` | 7 | 2 | 1 | 0 | 1 | 0 | 0 | 2.0 | uneven |" in text


def test_what_redis_lost_is_told_in_the_sum() -> None:
    limited = replace(OURS, contender="gevent-200-broker-redis", balance=replace(BOOKS, done=1, lost=1))
    assert "Stock Celery on Redis lost 1" in page(recorded(OURS, limited))
    assert "Redis" not in page(recorded(OURS)).partition("|")[0]
