"""Looks at a loop's thread: which route computes without the GIL, and from how many looks that is said."""

from __future__ import annotations

import pytest
from tests.report.rows_of_a_bad_day import Made, a_day

from greenlane_tools.plan.model_file import profile_of_model
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.recorded import profile_of_recording
from greenlane_tools.plan.set_up import present
from greenlane_tools.plan.simulation import simulate
from greenlane_tools.plan.unlocked import unlocked_fracs
from greenlane_tools.reader.rows import Look
from tests.recordings import MS

SEARCH = """
host = "gevent"
cores = 2
[[routes]]
route = "search"
rate_per_s = 25
unlocked_frac = FRAC
steps = [["cpu", { mean = 6, cv = 0.3 }]]
[[routes]]
route = "quote"
rate_per_s = 12
steps = [["cpu", { mean = 45, cv = 1 }]]
"""


def looked_at(route: str, looks: int, free: int) -> Made:
    """A day on which jobs of a route were looked at once each."""
    day = a_day(seconds=20)
    jobs = [job for job in day.jobs if job.route == route][:looks]
    assert len(jobs) == looks
    day.looks = [Look(job.process, job.job, 1, 20 * MS, 20 * MS * (n < free)) for n, job in enumerate(jobs)]
    return day


@pytest.mark.parametrize(
    ("looks", "free", "told"),
    [
        (19, 19, None),
        (20, 20, 1.0),
        (20, 10, 0.5),
        # Two of twenty may be system calls that were on their way.
        (20, 2, 0.0),
        (20, 4, 0.2),
        (200, 12, 0.0),
        (200, 30, 0.15),
        (200, 0, 0.0),
    ],
)
def test_a_share_is_told_from_enough_looks_and_above_what_system_calls_make(
    looks: int, free: int, told: float | None
) -> None:
    found = profile_of_recording(looked_at("GET /quote", looks, free))
    assert found.route("GET /quote").unlocked_frac == told
    assert found.route("GET /bikes").unlocked_frac is None


def test_looks_weigh_by_the_time_that_they_stand_for() -> None:
    day = looked_at("GET /quote", 40, 0)
    jobs = [job for job in day.jobs if job.route == "GET /quote"]
    looks = [Look(job.process, job.job, 1, (60 if n % 2 else 20) * MS, 60 * MS * (n % 2)) for n, job in enumerate(jobs)]
    assert unlocked_fracs(looks, {"quote": jobs}) == {"quote": pytest.approx(0.75, abs=0.01)}
    # Those of other jobs, such as what came in the warm-up, are not counted.
    assert unlocked_fracs(looks, {"quote": jobs[:10]}) == {}


def test_where_threads_beside_the_loop_wait_for_the_gil_nothing_is_told() -> None:
    day = looked_at("GET /quote", 40, 20)
    jobs = [job for job in day.jobs if job.route == "GET /quote"]
    assert unlocked_fracs(day.looks, {"quote": jobs}) == {"quote": 0.5}
    waited = [job._replace(wait_ns={**job.wait_ns, "gil": job.cpu_ns // 10}) for job in jobs]
    assert unlocked_fracs(day.looks, {"quote": waited}) == {}


def without(profile: Profile) -> list[str]:
    return [sentence for sentence in profile.notes if "without the GIL" in sentence]


def test_what_is_not_known_is_said_of_routes_that_matter() -> None:
    (nothing,) = without(profile_of_recording(a_day(seconds=20)))
    assert "GET /report" in nothing and "GET /health" not in nothing
    looked = profile_of_recording(looked_at("GET /quote", 50, 40))
    assert looked.route("GET /quote").unlocked_frac == 0.8
    assert not any("GET /quote" in sentence for sentence in without(looked))


def test_what_computes_without_the_gil_waits_for_no_permit() -> None:
    """Six ms of search beside quotes that fill half a core: with the GIL it shares a core with them, without it not."""
    p50_ms = {}
    for frac in ("0.0", "0.9"):
        profile = profile_of_model(SEARCH.replace("FRAC", frac))
        set_up = {**present(profile).to_json(), "host": "permits"}
        run = simulate(profile.simulated("permits").to_json(), set_up, jobs=20_000)
        p50_ms[frac] = run.route("search").percentile_ms(0.5)
    assert 1.25 * p50_ms["0.9"] < p50_ms["0.0"]
