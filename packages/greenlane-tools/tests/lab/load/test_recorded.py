"""Arrivals are replayed as they were: of a recording's routes, of a table's column."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from greenlane.errors import HostError, SettingsError
from greenlane_tools.lab.load.closed import closed_loop, is_installed, read_log
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Arrivals, Burst, Constant, Plan, Poisson, Recorded, Stream, Work
from greenlane_tools.lab.load.recorded import recorded, recorded_column, recorded_routes
from greenlane_tools.lab.load.schedule import Schedule, offered_ms, schedule
from greenlane_tools.lab.samples import FAILED, Samples, keep
from greenlane_tools.lab.statistics import quantile
from greenlane_tools.reader.recording import open_recording
from tests.recordings import write_pricing


def test_a_recording_s_routes_keep_their_places_towards_each_other(tmp_path: Path) -> None:
    path = write_pricing(tmp_path / "shop.glr", seconds=3)
    jobs = open_recording(path).jobs
    routes = recorded_routes(path)
    assert set(routes) == {job.route for job in jobs} and min(min(one.at_ns) for one in routes.values()) == 0
    assert [len(one.at_ns) for one in routes.values()] == sorted(
        (len(one.at_ns) for one in routes.values()), reverse=True
    )
    origin_ns = min(job.arrival_ns for job in jobs)
    bikes = sorted(job.arrival_ns - origin_ns for job in jobs if job.route == "GET /bikes")
    assert set(bikes) <= set(recorded(path, "GET /bikes").at_ns)
    made = schedule(Plan("1", 10.0, (Stream("bikes", "127.0.0.1:1", recorded(path, "GET /bikes")),)))
    assert tuple(made.at_ns.tolist()) == recorded(path, "GET /bikes").at_ns


def test_a_route_that_was_not_recorded_is_named_with_those_that_were(tmp_path: Path) -> None:
    path = write_pricing(tmp_path / "shop.glr", seconds=1)
    with pytest.raises(SettingsError, match=r"route='GET /trikes', expected one of GET /bikes, "):
        recorded(path, "GET /trikes")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_column_of_a_table_is_replayed_in_its_unit_from_its_earliest(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"access.{ending}"
    table = pyarrow.table({"at": [12.5, 10.0, 11.0], "route": ["/b", "/a", "/b"], "n": [7, 5, 6]})
    write = pyarrow.parquet.write_table if ending == "parquet" else pyarrow.csv.write_csv
    write(table, path)
    assert recorded_column(path, "at", unit="s") == Recorded((0, 1_000_000_000, 2_500_000_000))
    assert recorded_column(path, "n", unit="us") == Recorded((0, 1_000, 2_000))
    assert recorded_column(path, "at", unit="ms", where=("route", "/b")) == Recorded((1_000_000, 2_500_000))


def test_timestamps_have_their_own_unit(tmp_path: Path) -> None:
    path = tmp_path / "access.csv"
    path.write_text("when\n2026-01-01 00:00:01.25\n2026-01-01 00:00:01\n")
    assert recorded_column(path, "when").at_ns == (0, 250_000_000)


def test_the_lab_s_own_samples_can_be_sent_again(tmp_path: Path) -> None:
    plan = Plan("1", 1.0, (Stream("a", "x", Burst(2, 0.25, 0.25)), Stream("b", "x", Burst(1, 0.0))))
    made = schedule(plan)
    columns = [made.at_ns * 0 for _ in range(5)]
    samples = Samples(("a", "b"), made.stream, made.at_ns, *columns[:3], columns[3], columns[4], made.work_ms)  # type: ignore[arg-type]
    keep(tmp_path / "run.parquet", {}, samples)
    again = recorded_column(tmp_path / "run.parquet", "scheduled_ns", where=("endpoint", "a"))
    assert again.at_ns == tuple(made.at_ns[made.stream == 0].tolist())


@pytest.mark.parametrize(
    ("text", "column", "where", "said"),
    [
        ("at\n1\n", "when", None, "column='when', expected one of at"),
        ("at,b\n1,x\n,x\n", "at", None, "a time in every row"),
        ("at\nsoon\n", "at", None, "numbers or timestamps"),
        ("at,b\n1,x\n", "at", ("b", "y"), "b='y', expected one of x"),
        (None, "at", None, "a table in Parquet or CSV"),
    ],
)
def test_a_table_that_cannot_be_replayed_says_why(
    tmp_path: Path, text: str | None, column: str, where: tuple[str, str] | None, said: str
) -> None:
    path = tmp_path / "access.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SettingsError, match=said):
        recorded_column(path, column, where=where)


# --- Schedules: the same for the same seed, as their arrivals say, and as much CPU as their label says.


def priced(seed: str = "1", seconds: float = 20.0, address: str = "127.0.0.1:1") -> Plan:
    return Plan(
        seed,
        seconds,
        (
            Stream("bikes", address, Poisson(20.0), "/bikes", cost_ms=4.0),
            Stream("quote", address, Poisson(18.0), "/quote", cost_ms=45.0, work=Work(40.0, 1.0)),
        ),
    )


def only(arrivals: Arrivals, seconds: float = 1.0) -> list[int]:
    made: list[int] = schedule(Plan("1", seconds, (Stream("one", "127.0.0.1:1", arrivals),))).at_ns.tolist()
    return made


def same(one: Schedule, other: Schedule) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("at_ns", "stream", "work_ms"))


def test_a_seed_means_the_same_requests_in_every_release() -> None:
    """As the first release drew them: a recorded result can be asked again, request by request."""
    made = schedule(priced(seconds=3.0))
    assert len(made.at_ns) == 107
    assert made.at_ns[:4].tolist() == [17_082_027, 90_438_468, 91_132_440, 110_286_776]
    assert made.stream[:4].tolist() == [0, 0, 1, 1]
    assert made.work_ms[:4].tolist() == [0.0, 0.0, 60.401, 56.928]


def test_the_same_seed_gives_every_contender_the_same_schedule_and_another_another() -> None:
    assert same(schedule(priced(address="127.0.0.1:1")), schedule(priced(address="127.0.0.1:2")))
    assert not same(schedule(priced("1")), schedule(priced("2")))


@pytest.mark.parametrize("seconds", [4.0, 60.0])
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_the_offered_cpu_is_within_two_percent_of_the_label(seed: str, seconds: float) -> None:
    made = priced(seed, seconds)
    assert offered_ms(made, schedule(made)) == pytest.approx(seconds * (20.0 * 4.0 + 18.0 * 45.0), rel=0.02)


def test_gaps_are_exponential_and_work_is_lognormal_with_the_mean_and_spread_asked_for() -> None:
    made = schedule(priced(seconds=400.0))
    gaps = np.diff(made.at_ns[made.stream == 0]) / 1e9
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.05)
    assert gaps.std() == pytest.approx(1 / 20, rel=0.08)
    work = made.work_ms[made.stream == 1]
    assert work.mean() == pytest.approx(40, rel=0.05)
    assert work.std() == pytest.approx(40, rel=0.15)
    assert (made.work_ms[made.stream == 0] == 0).all()


def test_constant_arrivals_are_evenly_spaced_and_as_many_as_their_rate_says() -> None:
    assert only(Constant(4.0)) == [125_000_000, 375_000_000, 625_000_000, 875_000_000]
    assert only(Constant(0.0)) == []


def test_a_burst_is_due_at_one_instant_again_and_again() -> None:
    assert only(Burst(3, 0.5, 0.25)) == [250_000_000] * 3 + [750_000_000] * 3
    assert only(Burst(2, 0.0, 0.1)) == [100_000_000] * 2


def test_recorded_arrivals_are_replayed_to_the_nanosecond_up_to_the_plan_s_end() -> None:
    assert only(Recorded((5, 3, 999_999_999, 1_000_000_000))) == [3, 5, 999_999_999]


def test_streams_are_merged_by_time() -> None:
    streams = (Stream("a", "127.0.0.1:1", Constant(50.0)), Stream("b", "127.0.0.1:1", Poisson(50.0)))
    made = schedule(Plan("1", 2.0, streams))
    assert all(before <= after for before, after in pairwise(made.at_ns.tolist()))
    assert set(made.stream.tolist()) == {0, 1}
    alone = schedule(Plan("1", 2.0, streams[1:]))
    assert np.array_equal(made.at_ns[made.stream == 1], alone.at_ns)


def test_no_streams_and_no_rate_make_no_requests() -> None:
    assert len(schedule(Plan("1", 1.0, ()))) == 0
    assert only(Poisson(0.0)) == []


# --- A closed loop hides what an open one shows.


def test_the_tool_s_log_becomes_samples_by_time() -> None:
    samples = read_log("closed", "1000020\t200\t7\n1000000\t200\t15\n1000030\t-1\t2\n")
    assert samples.scheduled_ns.tolist() == [0, 20_000, 30_000]
    assert samples.latency_ms().tolist() == [0.015, 0.007, 0.002]
    assert samples.status.tolist() == [200, 200, FAILED]


def test_a_tool_that_is_not_installed_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="apt-get install nghttp2-client"):
        closed_loop("closed", "127.0.0.1:1", seconds=1.0)


@pytest.mark.system
def test_nobody_listening_is_said(free_port: int) -> None:
    _needs_tool()
    with pytest.raises(HostError, match="a server that answers"):
        closed_loop("closed", f"127.0.0.1:{free_port}", seconds=0.2)


@pytest.mark.system
def test_a_stall_of_one_second_is_in_our_p99_and_not_in_that_of_a_closed_loop(
    start_process: Callable[..., Any], free_ports: Callable[[], int]
) -> None:
    _needs_tool()
    ports = [free_ports(), free_ports()]
    for port in ports:
        start_process([sys.executable, str(Path(__file__).with_name("stalling.py")), str(port)], port=port)
    stream = Stream("open", f"127.0.0.1:{ports[0]}", Poisson(500.0), connections="keep-alive")
    ours = generate(Plan("stall", 4.0, (stream,))).samples.answered()
    theirs = closed_loop("closed", f"127.0.0.1:{ports[1]}", connections=2, seconds=4.0).answered()
    shown = {name: (quantile(ms, 0.99), ms[-1]) for name, ms in (("open", ours), ("closed", theirs))}
    print(*(f"{name}: p99 {p99:.1f} ms, max {most:.0f} ms" for name, (p99, most) in shown.items()), sep="\n")
    # Both met it. A quarter of the open loop's requests were due meanwhile; of the closed loop's, one a connection.
    assert min(ours[-1], theirs[-1]) > 900
    assert quantile(ours, 0.99) > 900
    assert quantile(theirs, 0.99) < 450


def _needs_tool() -> None:
    if not is_installed():
        pytest.skip("h2load is not installed: `make test-system` installs it")
