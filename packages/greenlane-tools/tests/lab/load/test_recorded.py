"""Arrivals are replayed as they were: of a recording's routes, of a table's column."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from greenlane.errors import SettingsError
from greenlane_tools.lab.load.plan import Burst, Plan, Recorded, Stream
from greenlane_tools.lab.load.recorded import recorded, recorded_column, recorded_routes
from greenlane_tools.lab.load.schedule import schedule
from greenlane_tools.lab.samples import Samples, keep
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
