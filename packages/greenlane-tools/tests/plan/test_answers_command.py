"""`greenlane plan bounds` and `greenlane plan decide`: from a profile or from numbers, with the formula each time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from greenlane.cli.main import main
from greenlane_tools.plan.answers import Asked, Work, answers, work_of
from greenlane_tools.plan.decision_case import case_of
from greenlane_tools.plan.model_file import profile_of_model

MODEL = """
host = "asyncio"
processes = 2
cores = 4
[[routes]]
route = "GET /bikes"
rate_per_s = 20
steps = [["cpu", 1], ["io", 100, "offers"], ["cpu", 1], ["io", 100, "offers"], ["cpu", 1]]
[[routes]]
route = "GET /quote"
rate_per_s = 20
bytes_in = 4000000
steps = [["cpu", 13], ["free", 4]]
"""


@pytest.fixture
def greenlane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").write_text(MODEL)

    def run(*argv: str) -> tuple[int, str, str]:
        code = main(["plan", *argv])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_profile_is_its_mix() -> None:
    profile = profile_of_model(MODEL)
    work = work_of(profile)
    assert (work.cpu_ms, work.io_ms) == (8, 102)  # (3 + 13) / 2, and (200 + 4) / 2: free CPU is beside this CPU
    assert work.cv2 == pytest.approx((5 / 8) ** 2)
    assert (work.waits, work.longest_ms) == (1, 7)
    bikes = work_of(profile, "GET /bikes")
    assert (bikes.cpu_ms, bikes.io_ms, bikes.cv2, bikes.waits) == (3, 200, 0, 2)
    case = case_of(profile, "GET /quote")
    assert (case.rate_per_s, case.heavy_ms, case.moved_mb, case.processes) == (20, 13, 4, 2)


def test_what_is_asked_is_answered() -> None:
    few = answers(Asked(Work(5, 55)))
    assert list(few) == ["knee", "at once", "speed-up"]
    many = answers(Asked(Work(5, 55), number=12, rate_per_s=680, processes=4, dispersion=3.0))
    assert many["latency"].value == pytest.approx(71.3, abs=0.1)
    assert many["latency by arrivals"].value == pytest.approx(5 / 0.15 + 55)
    assert many["in progress"].value == pytest.approx(0.68 * (5 / 0.15 + 55))
    assert many["wait, a queue each"].value > 3 * many["wait, one queue"].value
    assert "bursts" in many["wait, one queue"].said()
    full = answers(Asked(Work(5, 55), rate_per_s=500))
    assert full["wait"].value == float("inf") and "in progress" not in full
    assert answers(Asked(Work(0, 55), rate_per_s=10))["in progress"].value == pytest.approx(0.55)


def test_bounds_of_numbers(greenlane) -> None:
    code, out, _ = greenlane("bounds", "--cpu", "5", "--io", "55", "--at-once", "12")
    assert code == 0
    assert "knee  12: so many requests in progress fill the CPU" in out
    assert "N* = 1 + S/C" in out and "stops: " in out and "holds: " in out


def test_bounds_of_a_source_as_json(greenlane) -> None:
    code, out, _ = greenlane("bounds", "shop.toml", "--route", "GET /bikes", "--json")
    document: dict[str, Any] = json.loads(out)
    assert (code, document["schema"]) == (0, "greenlane.plan-bounds/1")
    rows = {row["answer"]: row for row in document["rows"]}
    assert rows["knee"]["value"] == pytest.approx(203 / 3)
    assert all(row["symbols"] and row["stops"] for row in document["rows"])


def test_a_word_of_a_route_names_it(greenlane) -> None:
    for command in ("bounds", "decide"):
        _, by_word, _ = greenlane(command, "shop.toml", "--route", "bikes")
        assert by_word == greenlane(command, "shop.toml", "--route", "GET /bikes")[1]


def test_bytes_that_nobody_knows_are_said_to_be_assumed(greenlane) -> None:
    note = "note: how many bytes move is not known: 0 is assumed; give --mb"
    assert note in greenlane("decide", "shop.toml", "--route", "bikes")[2]
    assert note not in greenlane("decide", "shop.toml", "--route", "bikes", "--mb", "1")[2]
    assert note not in greenlane("decide", "shop.toml", "--route", "quote")[2]


def test_decide_of_numbers_and_of_a_source(greenlane) -> None:
    code, out, _ = greenlane(
        "decide",
        "--rate",
        "2",
        "--cpu",
        "265",
        "--heavy",
        "250",
        "--io",
        "120",
        "--waits",
        "3",
        "--mb",
        "4",
        "--cores",
        "8",
    )
    assert code == 0
    assert out.startswith(("native", "shared memory"))
    assert "rewrite it in Go" in out and "rests on" in out
    code, out, _ = greenlane("decide", "shop.toml", "--route", "GET /quote", "--json")
    document = json.loads(out)
    *ways, rule = document["rows"]
    assert [row["way"] for row in ways] == ["stay", "pool", "shared memory", "native", "split"]
    assert ways[4]["gbit_per_s"] == pytest.approx(20 * 4 * 8 / 1000)
    assert set(rule["conditions"]) == {"much CPU", "much I/O", "much to send"}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("bounds",), "--cpu and --io"),
        (("bounds", "shop.toml", "--cpu", "5"), "none beside a source"),
        (("bounds", "shop.toml", "--route", "GET /bike"), "did you mean"),
        (("bounds", "shop.toml", "--route", "GET"), "compute bounds: --route='GET', expected one route"),
        (("decide", "shop.toml", "--route", "cars"), "decide where work runs: --route='cars', expected a route"),
        (("bounds", "--cpu", "-5", "--io", "5"), "expected a finite number"),
        (("bounds", "--cpu", "5", "--io", "5", "--at-once", "0"), "expected a whole number"),
        (("decide", "--rate", "5"), "--cpu, --heavy, --io"),
        (("decide", "--rate", "5", "--cpu", "1", "--heavy", "2", "--io", "1"), "a part of cpu_ms"),
    ],
)
def test_what_is_missing_is_said_with_exit_2(greenlane, argv: tuple[str, ...], says: str) -> None:
    code, out, err = greenlane(*argv)
    assert (code, out) == (2, "")
    assert says in err
