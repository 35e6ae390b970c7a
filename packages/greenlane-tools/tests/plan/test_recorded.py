"""From a recording to a profile: made-up ones whose truth is known, and real ones of programs that know theirs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.record.command import record
from tests.report.rows_of_a_bad_day import Endpoint, Made, a_day

from greenlane.errors import PlanError
from greenlane_tools.plan.band import full_load
from greenlane_tools.plan.profile import Profile, told_dispersion
from greenlane_tools.plan.recorded import profile_of_recording
from greenlane_tools.plan.recorded_host import core_speed, spread, unlocked_fracs
from greenlane_tools.plan.recorded_steps import shortened, steps_of
from greenlane_tools.plan.route import NOBODY, Step
from greenlane_tools.plan.set_up import SetUp, present
from greenlane_tools.plan.simulation import simulate
from greenlane_tools.plan.sources import opened, profile_of_model
from greenlane_tools.reader.recording import Recording
from greenlane_tools.reader.rows import Look, Sample, Segment
from tests.recordings import MS, S, pricing


@pytest.fixture(scope="module")
def green() -> Profile:
    """The pricing service of two gevent workers; what it does is known exactly."""
    return profile_of_recording(Recording(pricing(seconds=20)), "pricing")


def test_a_profile_knows_what_served_it(green: Profile) -> None:
    assert (green.host, green.name, green.source) == ("gevent", "pricing", "recording")
    assert green.processes == 3 and 19 < green.seconds < 21
    assert 0.3 < (green.arrivals.dispersion or 0) < 3


def test_a_load_that_grows_has_no_bursts_and_one_that_surges_has() -> None:
    def spread_of(per_s: Callable[[int], float]) -> float | None:
        chance = random.Random(7)
        counts = (round(chance.gauss(per_s(second), math.sqrt(per_s(second)))) for second in range(60))
        return told_dispersion(spread([S * at + n for at, count in enumerate(counts) for n in range(count)]), 60)

    assert spread_of(lambda second: 100 + 4 * second) == 1.0
    assert spread_of(lambda second: 150 if second < 6 else 200) == 1.0  # a warm-up
    assert (spread_of(lambda second: 100 + 100 * (second * 7 % 5 < 2)) or 0) > 4


def test_steps_are_those_of_the_requests_without_their_waits(green: Profile) -> None:
    bikes = green.route("GET /bikes")
    assert {tuple(step.kind for step in each.steps) for each in bikes.sequences} == {("cpu", "io", "cpu", "io", "cpu")}
    assert bikes.upstreams == ("inventory:8080",)
    for each in bikes.sequences:
        cpu, io = each.ms("cpu"), each.ms("io")
        assert 4 * 0.8 - 0.1 <= cpu <= 4 * 1.2 + 0.1 and 220 * 0.8 <= io <= 220 * 1.2
        assert all(step.upstream == (0 if step.kind == "io" else NOBODY) for step in each.steps)
    assert bikes.demand.cpu_ms == pytest.approx(4, rel=0.05) and bikes.demand.io_ms == pytest.approx(220, rel=0.05)
    assert bikes.rate_per_s == pytest.approx(80, rel=0.1) and bikes.deadline_ms == 500


def test_what_blocks_the_loop_is_held(green: Profile) -> None:
    legacy = green.route("GET /legacy")
    assert legacy.demand.held_ms == pytest.approx(30, rel=0.15) and legacy.demand.io_ms == 0
    assert legacy.upstreams == ("rates.legacy:21",)


def test_latencies_are_from_arrival_and_good_to_two_percent(green: Profile) -> None:
    recording = Recording(pricing(seconds=20))
    for route in ("GET /bikes", "GET /report"):
        latencies = sorted(job.latency_ns / 1e6 for job in recording.jobs if job.route == route)
        measured = green.measured[route]
        assert measured.samples == len(latencies)
        for share in (0.5, 0.95, 0.99):
            exact = latencies[math.ceil(share * len(latencies)) - 1]
            assert measured.quantile_ms(share) == pytest.approx(exact, rel=0.025)


def test_it_is_small_and_reads_back(green: Profile) -> None:
    written = green.to_json()
    assert len(written) < 200_000 and Profile.from_json(written) == green


def test_its_cpu_is_what_the_processes_used(green: Profile) -> None:
    """Two with 40 bikes of 4 ms, 6 reports of 97 ms and a call that holds the loop for 30 ms; one with 4 of 55 ms."""
    busy = 1 / full_load(green, SetUp("gevent", 1, 0))
    assert busy == pytest.approx(2 * (40 * 0.004 + 6 * 0.097 + 1 * 0.032) + 4 * 0.055, rel=0.15)


def test_a_bad_day_of_rows_gives_their_costs() -> None:
    day = a_day({"GET /bikes": Endpoint(40, 0.6, 110, 0.9, "offers-db:5432")}, seconds=60, workers=(1.0,))
    found = profile_of_recording(day).route("GET /bikes")
    assert found.demand.cpu_ms == pytest.approx(1.5 * 1.02, rel=0.05) and found.demand.io_ms == pytest.approx(
        110, rel=0.02
    )
    assert found.upstreams == ("offers-db:5432",) and len(found.sequences) == 256
    assert found.requests == len(day.jobs)


def test_a_recording_without_requests_is_refused() -> None:
    with pytest.raises(PlanError, match="at least one request ended"):
        profile_of_recording(a_day({}, seconds=1))


def named(segment: Segment) -> tuple[str, int]:
    return "io", 0 if segment.label == "db" else NOBODY


def piece(state: str, from_ms: float, to_ms: float, kind: str = "", label: str = "") -> Segment:
    return Segment(state, kind, int(from_ms * MS), int(to_ms * MS), "unit", label)


@pytest.mark.parametrize(
    ("life", "steps"),
    [
        # Taken away: the stretches are one. Given away: they are two.
        ([piece("cpu", 0, 2), piece("wait", 2, 7, "gil"), piece("cpu", 7, 8)], (Step("cpu", 3),)),
        (
            [piece("cpu", 0, 2), piece("wait", 2, 7, "loop"), piece("cpu", 7, 8)],
            (Step("cpu", 2), Step("io", 0), Step("cpu", 1)),
        ),
        # Ready long before it ran: the I/O ends when it was ready.
        (
            [piece("wait", 0, 9, "accept"), piece("cpu", 9, 10), piece("io", 10, 60, "socket", "db"),
             piece("wait", 60, 90, "loop"), piece("cpu", 90, 91)],
            (Step("cpu", 1), Step("io", 50, 0), Step("cpu", 1)),
        ),
        # Two children beside each other: the longer counts; one that waits is hidden by one that is in I/O.
        (
            [piece("cpu", 0, 1), piece("io", 1, 21, "socket", "db"), piece("io", 1, 41, "sleep"),
             piece("wait", 21, 30, "loop"), piece("cpu", 41, 42)],
            (Step("cpu", 1), Step("io", 20, 0), Step("io", 20), Step("cpu", 1)),
        ),
        ([piece("cpu", 0, 10), piece("io", 2, 5, "socket", "db")], (Step("cpu", 10),)),
        ([], ()),
    ],
)  # fmt: skip
def test_a_life_becomes_what_it_would_have_been_alone(life: list[Segment], steps: tuple[Step, ...]) -> None:
    assert steps_of(life, named) == steps  # type: ignore[arg-type]


def test_lookups_that_waited_for_the_loop_count_as_those_that_did_not() -> None:
    fast = [piece("cpu", 0, 1), piece("io", 1, 2, "dns", "getaddrinfo"), piece("io", 2, 102, "socket", "db")]
    slow = [piece("cpu", 0, 1), piece("io", 1, 9001, "dns", "getaddrinfo"), piece("io", 9001, 9101, "socket", "db")]
    lives = shortened({(1, 1): fast, (1, 2): slow, (1, 3): slow})
    assert lives[1, 1] == fast
    assert steps_of(lives[1, 3], named) == (Step("cpu", 1), Step("io", 4), Step("io", 100, 0))  # type: ignore[arg-type]
    assert shortened({(1, 1): fast[:1]}) == {(1, 1): fast[:1]}


def test_a_very_long_life_is_shortened_without_losing_time() -> None:
    chance, life, at = random.Random(5), [], 0.0
    for _ in range(1000):
        for state in ("cpu", "io"):
            ms = chance.choice([0.01, 0.1, 1.0, 5.0])
            life.append(piece(state, at, at + ms, "socket" if state == "io" else "", "db"))
            at += ms
    found = steps_of(life, named)  # type: ignore[arg-type]
    assert len(found) <= 200 and sum(step.ms for step in found) == pytest.approx(at, rel=1e-6)
    assert sum(step.ms for step in found if step.kind == "cpu") == pytest.approx(
        sum(each.to_ns - each.from_ns for each in life if each.state == "cpu") / MS, rel=1e-6
    )


BURN = """
def burn(ms):
    end = time.thread_time() + ms / 1000
    while time.thread_time() < end:
        pass
"""
ON_THREADS = f"""
import threading
{BURN}
def client(number):
    for _ in range(15):
        with greenlane.record.job("quote"):
            burn(4)
            time.sleep(0.012)
            burn(1)
threads = [threading.Thread(target=client, args=(number,)) for number in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
ON_GEVENT = f"""
from gevent import monkey; monkey.patch_all()
import gevent
{BURN}
def client(number):
    for _ in range(12):
        with greenlane.record.job("quote"):
            burn(3)
            time.sleep(0.015)
            burn(2)
gevent.joinall([gevent.spawn(client, number) for number in range(5)])
"""
ON_ASYNCIO = f"""
import asyncio
{BURN}
async def client(number):
    for _ in range(12):
        with greenlane.record.job("quote"):
            burn(3)
            await asyncio.sleep(0.015)
            burn(2)
async def main():
    await asyncio.gather(*(client(number) for number in range(5)))
asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "host", "requests", "io_ms"),
    [(ON_THREADS, "threads", 45, 12), (ON_GEVENT, "gevent", 60, 15), (ON_ASYNCIO, "asyncio", 60, 15)],
    ids=["threads", "gevent", "asyncio"],
)
def test_a_real_program_is_profiled_as_it_is(
    program: str, host: str, requests: int, io_ms: float, tmp_path: Path
) -> None:
    """5 ms of CPU around a sleep, by several that wait for each other: the waiting is not in the profile."""
    ended = record(program, cwd=tmp_path)
    assert ended.code == 0, ended.err
    found = opened(str(tmp_path / "r.glr"))
    route = found.route("quote")
    assert (found.host, route.requests, found.name) == (host, requests, "r")
    assert len(route.sequences) == requests and route.threshold == 0
    # The CPU clock is the program's own. A sleep ends late on a busy machine, and never early; where the machine takes
    # the core away for long the recording may not tell the two apart: not in most requests.
    assert route.demand.cpu_ms == pytest.approx(5, rel=0.25)
    slept = [
        [step.ms for step in each.steps if step.kind == "io" and step.ms >= io_ms - 0.1] for each in route.sequences
    ]
    assert sum(len(each) == 1 for each in slept) > requests / 2
    assert opened(str(tmp_path / "r.glr")).to_json() == found.to_json()


def test_the_cores_speed_is_told_by_stretches_of_ten_seconds() -> None:
    def samples(seconds: int) -> list[Sample]:
        slow = (30_000, 42_000)
        return [Sample(1, n * S, 0, 0, 0, 1, 0, 0, slow[n // 10 % 2]) for n in range(seconds)]

    loop_us, spread = core_speed(samples(40), 0, 40 * S)
    assert loop_us == 36 and spread == pytest.approx(math.log(1.4) / 2 * math.sqrt(4 / 3), abs=1e-3)
    assert core_speed(samples(15), 0, 40 * S) == (36, None)
    assert core_speed([Sample(1, S, 0, 0, 0, 1, 0, 0, 0)], 0, 40 * S) == (None, None)
    # Looks that meet now a busy core and now an idle one are no change of the speed: ten of them stray by 0.05.
    chance = random.Random(1)
    looks = [Sample(1, n * S, 0, 0, 0, 1, 0, 0, chance.choice((30_000, 42_000))) for n in range(600)]
    assert (core_speed(looks, 0, 600 * S)[1] or 0) < 0.03


# --- Looks at a loop's thread: which route computes without the GIL, and from how many looks that is said.


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
