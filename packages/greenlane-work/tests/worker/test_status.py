"""What a worker shows of its keys."""

from __future__ import annotations

from typing import Any

from greenlane_work.worker.status import capped


def row(key: str, parked: int, breaker: str = "closed") -> dict[str, Any]:
    return {"key": key, "running": 1, "parked": parked, "limit": 2, "oldest_s": float(parked), "breaker": breaker}


def test_the_fullest_keys_are_named_and_all_others_are_one() -> None:
    rows = [row(f"k{number}", number, "open" if number == 3 else "closed") for number in range(1000)]
    shown = capped(rows, 2)
    assert [each["key"] for each in shown] == ["k999", "k998", "other"]
    other = shown[-1]
    assert (other["running"], other["parked"], other["limit"]) == (998, sum(range(998)), 2 * 998)
    assert (other["oldest_s"], other["breaker"]) == (997.0, "open")


def test_no_key_is_named_where_none_may_be() -> None:
    assert [each["key"] for each in capped([row("customer", 1)], 0)] == ["other"]
    assert [each["key"] for each in capped([row("customer", 1)], 1)] == ["customer"]
