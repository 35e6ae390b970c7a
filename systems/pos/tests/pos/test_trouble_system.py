"""The demo's troubles, run small: what the other merchants notice of them, and that no order is lost or doubled."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from greenlane_work.limits import UpstreamRule
from pos.contenders import CONTENDERS
from pos.demo.command import main
from pos.demo.results import MOST_FRAC

pytestmark = [pytest.mark.system, pytest.mark.slow]
SLOTS = CONTENDERS["greenlane"].slots


def rows_of(folder: Path, trouble: str, per_s: int, seconds: int, slow_s: int = 30) -> list[dict[str, Any]]:
    """Of the healthy merchants, and of those in trouble."""
    out, err = io.StringIO(), io.StringIO()
    argv = ["--contenders", "greenlane", "--stages", "slow-merchant", "--trouble", trouble, "--json"]
    argv += ["--per-s", str(per_s), "--seconds", str(seconds), "--slow-s", str(slow_s), "--out", str(folder)]
    assert main(argv, out, err) == 0, err.getvalue()
    found: list[dict[str, Any]] = json.loads(out.getvalue())["rows"]
    return found


def test_two_merchants_that_hang_from_the_same_moment_on_hold_no_order_of_the_others(tmp_path: Path) -> None:
    healthy, slow = rows_of(tmp_path, "two-slow", per_s=40, seconds=8)
    assert (healthy["samples"], healthy["done"]) == (256, 256)
    # 32 each: slots are free for all of them, and the limit of a merchant that has never answered lets fewer through.
    assert (slow["samples"], slow["done"]) == (64, 0)
    assert slow["running_max"] <= UpstreamRule().first_limit < 32
    assert slow["parked_max"] >= 64 - 2 * UpstreamRule().first_limit
    assert [(row["lost"], row["effects_doubled"]) for row in (healthy, slow)] == [(0, 0)] * 2


def test_a_merchant_that_answers_late_and_recovers_gets_all_its_orders_once(tmp_path: Path) -> None:
    healthy, slow = rows_of(tmp_path, "recovers", per_s=40, seconds=8, slow_s=3)
    assert (healthy["samples"], healthy["done"]) == (288, 288)
    assert (slow["samples"], slow["done"]) == (32, 32)
    assert slow["parked_max"] > 0
    assert [(row["lost"], row["effects_doubled"]) for row in (healthy, slow)] == [(0, 0)] * 2


def test_a_flood_for_one_merchant_holds_no_order_of_the_others(tmp_path: Path) -> None:
    healthy, flooded = rows_of(tmp_path, "flood", per_s=30, seconds=4)
    assert (healthy["samples"], healthy["done"]) == (108, 108)
    assert flooded["running_max"] <= MOST_FRAC * SLOTS
    assert [(row["lost"], row["effects_doubled"]) for row in (healthy, flooded)] == [(0, 0)] * 2
