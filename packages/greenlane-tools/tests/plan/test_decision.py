"""Stay, pool, shared memory, native, split: the arithmetic, the article's figures, and where its rule is wrong."""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.profiles import BIKES

from greenlane.errors import PlanError
from greenlane_tools.plan.costs import ARENA, JSON, ORJSON, POOL
from greenlane_tools.plan.decision import case_of, decided
from greenlane_tools.plan.decision_ways import Case, gbit_per_s
from greenlane_tools.plan.model_file import profile_of_model

#: A loop that ranks 3,000 items a request: features and a model, 4 MB as JSON, three groups of I/O.
RANKING = Case(
    rate_per_s=2, cpu_ms=265, heavy_ms=250, io_ms=60, io_groups=3, moved_mb=4, result_mb=0.1, cores=8, workers=3
)


def test_the_articles_split_would_have_needed_a_hundred_gigabits() -> None:
    # 200,000 requests a minute of 4 MB.
    answer = gbit_per_s(200_000 / 60, 4)
    assert answer == pytest.approx(106.7, abs=0.1)
    assert answer / 8 == pytest.approx(13.33, abs=0.01)  # GB a second
    split = decided(replace(RANKING, rate_per_s=200_000 / 60, machines=1_000, processes=4, link_gbit_per_s=0.1)).option(
        "split"
    )
    assert "do not go through" in split.why_not and split.latency_ms == math.inf
    assert split.gbit_per_s == pytest.approx(109.3, abs=0.1)


def test_serialisation_is_counted_where_it_happens() -> None:
    found = decided(RANKING)
    pool, split = found.option("pool"), found.option("split")
    assert pool.moving_ms == pytest.approx(POOL.there_ms(4, 0.1) + sum(POOL.here_ms(4, 0.1)))
    assert pool.moving_ms == pytest.approx(4.1 * 8)
    assert split.moving_ms == pytest.approx(4.1 * (11.3 + 14.5))
    assert decided(replace(RANKING, encoding=ORJSON)).option("split").moving_ms == pytest.approx(4.1 * 5.41)
    assert found.option("shared memory").moving_ms < pool.moving_ms / 50


def test_a_service_of_its_own_costs_hundreds_of_milliseconds_for_megabytes_of_json() -> None:
    # Printed: +270 ms of network and JSON at 4 MB, 12 MB for very active users.
    moved = [decided(replace(RANKING, rate_per_s=0.01, moved_mb=mb)) for mb in (4, 12)]
    more = [each.option("split").latency_ms - each.option("stay").latency_ms for each in moved]
    assert 80 < more[0] < 270 < more[1] < 400


def test_a_loop_that_is_held_resumes_everybody_late() -> None:
    # Printed: a sleeping coroutine is resumed 80 ms late, three groups of I/O make 240 ms. The wait for the loop is
    # counted once a visit.
    busy = decided(replace(RANKING, rate_per_s=1.4)).option("stay")
    wait_ms = (busy.latency_ms - RANKING.cpu_ms - RANKING.io_ms) / 4
    assert 70 < wait_ms < 130


def _mean_on_a_loop(case: Case, bursts_ms: list[float], requests: int) -> float:
    """Mean latency of requests on one loop in order of readiness, each burst gamma with the case's spread."""
    chance = random.Random(7)
    wait_ms = case.io_ms / (len(bursts_ms) - 1)
    ready: list[tuple[float, int, int]] = []
    arrived, now = [], 0.0
    at = 0.0
    for number in range(requests):
        at += chance.expovariate(case.loop_per_s / 1000)
        arrived.append(at)
        ready.append((at, number, 0))
    heapq.heapify(ready)
    total = 0.0
    while ready:
        came, number, visit = heapq.heappop(ready)
        now = max(now, came) + chance.gammavariate(1 / case.cv2, bursts_ms[visit] * case.cv2)
        if visit + 1 < len(bursts_ms):
            heapq.heappush(ready, (now + wait_ms, number, visit + 1))
        else:
            total += now - arrived[number]
    return total / requests


@pytest.mark.slow
@pytest.mark.parametrize(("busy", "above"), [(0.3, 1.06), (0.6, 1.2), (0.8, 1.45)])
def test_the_loops_formula_is_above_a_loop_by_no_more_than_it_says(busy: float, above: float) -> None:
    case = Case(rate_per_s=busy * 1000 / 50, cpu_ms=50, heavy_ms=38, io_ms=120, io_groups=3)
    stay = decided(case).option("stay")
    assert stay.loop_busy_frac == pytest.approx(busy)
    found_ms = _mean_on_a_loop(case, [3.0, 3.0, 3.0, 41.0], 30_000)
    assert 0.99 <= stay.latency_ms / found_ms <= above


def test_three_conditions_and_where_their_rule_is_wrong() -> None:
    found = decided(RANKING)
    assert [each.holds for each in found.conditions] == [True, False, True]
    rewrite = decided(replace(RANKING, io_ms=120))
    assert all(each.holds for each in rewrite.conditions)
    assert rewrite.rule == "rewrite it in Go"
    assert rewrite.best in ("shared memory", "native")
    said = rewrite.said()
    assert "nothing needs to be rewritten" in said
    assert "It is the objects, not the bytes" in said
    assert "count that before splitting" not in said or rewrite.option("split").gbit_per_s >= 1


def test_little_load_and_little_work_stay() -> None:
    calm = decided(Case(rate_per_s=1, cpu_ms=3, heavy_ms=1, io_ms=100))
    assert calm.best == "stay" and calm.rule == "stay"
    assert "stay: everything on the loop" in calm.why


def test_a_cap_is_kept_by_the_least_change() -> None:
    capped = decided(replace(RANKING, rate_per_s=1, cap_ms=2_000))
    assert capped.best == "stay"
    tight = decided(replace(RANKING, rate_per_s=1, cap_ms=250))
    assert tight.best == "native"
    assert tight.option("native").latency_ms <= 250 < tight.option("stay").latency_ms


def test_buffers_need_no_shared_memory() -> None:
    arrays = decided(replace(RANKING, objects=False))
    assert arrays.option("pool").moving_ms < 8
    assert arrays.option("pool").latency_ms < 1.05 * arrays.option("shared memory").latency_ms


def test_what_cannot_carry_the_load_says_why() -> None:
    much = decided(replace(RANKING, rate_per_s=50))
    assert much.best == "native"
    assert "loop alone" in much.option("stay").why_not
    assert "heavy part" in much.option("shared memory").why_not
    over = decided(replace(RANKING, rate_per_s=80))
    assert over.best == "" and "more of them first" in over.why
    few = decided(replace(RANKING, rate_per_s=8, cores=1, workers=4))
    assert "cores of 1" in few.option("shared memory").why_not


@pytest.mark.parametrize(
    ("name", "value"),
    [("rate_per_s", 0), ("cpu_ms", -1), ("heavy_ms", 300), ("workers", 0), ("io_groups", -1), ("cap_ms", 0),
     ("moved_mb", math.nan), ("native", math.inf)],
)  # fmt: skip
def test_a_case_that_cannot_be_names_its_field(name: str, value: float) -> None:
    with pytest.raises(PlanError, match=f"{name}=.*, expected "):
        replace(RANKING, **{name: value})


@given(
    rate=st.floats(0.01, 100), heavy=st.floats(0, 200), light=st.floats(0, 50), io=st.floats(0, 500),
    groups=st.integers(0, 20), mb=st.floats(0, 20), objects=st.booleans(), processes=st.integers(1, 8),
)  # fmt: skip
def test_every_case_has_an_answer_that_adds_up(
    rate: float, heavy: float, light: float, io: float, groups: int, mb: float, objects: bool, processes: int
) -> None:
    case = Case(
        rate_per_s=rate, cpu_ms=heavy + light, heavy_ms=heavy, io_ms=io, io_groups=groups, moved_mb=mb, objects=objects,
        processes=processes, cores=16,
    )  # fmt: skip
    found = decided(case)
    assert [each.name for each in found.options] == ["stay", "pool", "shared memory", "native", "split"]
    for each in found.options:
        assert (each.latency_ms == math.inf) == bool(each.why_not)
        assert each.cpu_ms >= min(heavy, heavy / case.native) + light - 1e-6
        if not each.why_not:
            assert each.latency_ms >= light + io - 1e-6
            assert each.loop_busy_frac < 1
    if found.best:
        best, can = found.option(found.best), [each for each in found.options if not each.why_not]
        assert best.latency_ms <= 1.1 * min(each.latency_ms for each in can) + 1e-9
    assert found.said()
    assert ARENA.source and JSON.source


def test_a_profile_gives_the_case_of_all_requests_or_of_one_route() -> None:
    profile = profile_of_model(BIKES)
    bikes, all_ = case_of(profile, "bikes"), case_of(profile)
    assert (bikes.rate_per_s, bikes.cpu_ms, bikes.heavy_ms, bikes.io_ms, bikes.io_groups) == (20, 3, 1, 200, 2)
    assert (bikes.cv2, bikes.processes, bikes.cores) == (0, 2, 2)
    assert all_.cpu_ms == pytest.approx((20 * 3 + 50 * 16) / 70, rel=1e-3)
    with pytest.raises(PlanError, match="expected a route of the profile"):
        case_of(profile, "scooters")
