"""The verdict on services whose truth is known, and that the change which ends each trouble does so."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.truths import shop
from tests.truths.check import TRUTHS, measured, recorded, told, verdict

#: In the gate: names that a busy machine cannot change, since nobody computes there.
GATE = (
    "pool_stats", "pool_psycopg_async", "pool_asyncpg", "pool_redis", "pool_urllib3", "executor_pdf", "executor_thumbs",
    "semaphore_async", "accept_silent", "errors_all",
)  # fmt: skip
_WHERE = {True: (pytest.mark.system, pytest.mark.gate), False: (pytest.mark.system, pytest.mark.measured)}


@pytest.mark.parametrize("name", [pytest.param(name, marks=_WHERE[name in GATE]) for name in TRUTHS])
def test_the_verdict_is_the_truth(name: str, tmp_path: Path, postgres: str) -> None:
    file = tmp_path / f"{name}.glr"
    recorded(TRUTHS[name], file, postgres)
    parts, brief = told(TRUTHS[name], file)
    wrong = [f"{part.name}: {part.found}, expected {part.expected}" for part in parts if not part.right]
    assert not wrong, brief


@pytest.mark.system
@pytest.mark.measured
@pytest.mark.parametrize("name", [name for name, truth in TRUTHS.items() if truth.changed])
def test_the_change_ends_the_trouble(name: str, postgres: str) -> None:
    before_ms, after_ms = measured(TRUTHS[name], postgres)
    assert after_ms <= TRUTHS[name].most_frac * before_ms, TRUTHS[name].change


@pytest.mark.system
@pytest.mark.measured
@pytest.mark.timeout(300)
def test_the_route_that_the_shops_verdict_names_is_the_one_that_helps_most_elsewhere(
    tmp_path: Path, postgres: str
) -> None:
    file = tmp_path / "shop.glr"
    recorded(TRUTHS["shop"], file, postgres)
    found = verdict(file)
    p95_ms = dict(shop.p95_by_change(postgres))
    assert found is not None and found["holder"]["who"] == f"GET {min(shop.OTHERS, key=p95_ms.__getitem__)}", p95_ms
