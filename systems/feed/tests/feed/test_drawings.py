"""Drawings say what the rows say: areas, lengths and ratios; and they are whole SVG files."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from feed.drawings.__main__ import drawn, main
from feed.drawings.drawn import radius, step_of
from feed.drawings.rows import steps

_NAMES = ("stages.svg", "service-map.svg", "ladder.svg")


def stage(name: str, of: str, wall_ms: float, cpu_ms: float, wait_ms: float) -> dict[str, Any]:
    io_ms = wall_ms - cpu_ms - wait_ms
    cell = {"contender": of, "cell": "at the pool's rate", "beside": ""}
    return {**cell, "stage": name, "cpu_ms": cpu_ms, "io_ms": io_ms, "wait_ms": wait_ms, "wait_most_ms": None}


def cell(of: str, p95_ms: float, per_s: float, **more: Any) -> dict[str, Any]:
    row = {"contender": of, "cell": "half", "beside": "", "stage": None, "p95_ms": p95_ms, "offered_per_s": per_s}
    return row | more


# As the ladder writes them: half of each variant's capacity, greenlane beside it; then all at one rate.
ROWS: list[dict[str, Any]] = [
    cell(
        "pool", 400.0, 4.0, cpu_ms_per_job=210.0,
        parts_cpu_ms={"service": 90.0, "workers": 120.0, "models": 2.0, "history": 0.5, "shards": 9.0},
    ),
    {**stage("models", "pool", 99, 1, 0), "cell": "half"},
    cell("greenlane", 50.0, 4.0, beside="pool", cpu_ms_per_job=11.0),
    cell("hashes", 900.0, 1.5, cpu_ms_per_job=420.0),
    cell("greenlane", 60.0, 1.5, beside="hashes", cpu_ms_per_job=12.0),
    cell(
        "greenlane", 70.0, 40.0, cpu_ms_per_job=10.0,
        parts_cpu_ms={"service": 10.0, "models": 2.0, "history": 0.5, "shards": 1.0},
    ),
    cell("pool", 410.0, 4.0, cell="at the pool's rate"),
    stage("models", "pool", 30, 1, 5), stage("features", "pool", 200, 120, 0), stage("<odd & name>", "pool", 1, 1, 0),
    cell("greenlane", 51.0, 4.0, cell="at the pool's rate"),
    stage("models", "greenlane", 30, 1, 0), stage("records", "greenlane", 3, 2, 0),
]  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"schema": "greenlane.demo/1", "environment": {}, "rows": ROWS}))
    return path


def test_each_step_stands_beside_ours_at_its_own_rate(rows: Path) -> None:
    found = {step.name: step for step in steps(rows)}
    assert list(found) == ["pool", "greenlane", "hashes"]
    assert (found["pool"].ours_p95_ms, found["hashes"].ours_p95_ms) == (50.0, 60.0)
    assert found["greenlane"].ours_p95_ms is None and found["greenlane"].p95_ms == 70.0
    # Stages are those at one rate, where there are such.
    assert list(found["greenlane"].stages) == ["models", "records"] and found["hashes"].stages == {}
    assert found["pool"].stages["models"] == {"cpu_ms": 1.0, "io_ms": 24.0, "wait_ms": 5.0, "wall_ms": 30.0}


def test_each_drawing_is_a_whole_file_that_fetches_nothing(rows: Path) -> None:
    made = drawn(rows)
    assert set(made) == set(_NAMES)
    for text in made.values():
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert re.findall(r"https?://[^\"' ]+|url\(|href=", text) == ["http://www.w3.org/2000/svg"]
        assert "nan" not in text and "inf" not in text


def test_the_ladder_says_both_percentiles_and_their_ratio(rows: Path) -> None:
    text = drawn(rows)["ladder.svg"]
    assert "400 ms → 50 ms (8.0 ×)" in text and "900 ms → 60 ms (15.0 ×)" in text


def test_areas_of_the_map_are_to_each_other_as_cpu_is(rows: Path) -> None:
    text = drawn(rows)["service-map.svg"]
    sizes = {
        said: float(size) for size, said in re.findall(r'r="([\d.]+)"><title>([^:]+: [\d.]+ ms) of CPU a request', text)
    }
    assert math.isclose(sizes["service: 90 ms"] ** 2 / sizes["its workers: 120 ms"] ** 2, 90 / 120, rel_tol=0.01)
    assert math.isclose(sizes["service: 10 ms"] ** 2 / sizes["service: 90 ms"] ** 2, 10 / 90, rel_tol=0.01)
    assert radius(0.0, 5.0) == 0.0


def test_what_was_not_measured_is_a_ring(rows: Path, tmp_path: Path) -> None:
    bare = [{key: value for key, value in row.items() if key != "parts_cpu_ms"} for row in ROWS]
    path = tmp_path / "bare.json"
    path.write_text(json.dumps({"rows": bare}))
    assert drawn(path)["service-map.svg"].count('class="ring"') == 6
    assert drawn(rows)["service-map.svg"].count('class="ring"') == 0


def test_bars_of_a_variant_are_as_long_as_its_time(rows: Path) -> None:
    text = drawn(rows)["stages.svg"]
    widths = {
        said: float(width)
        for width, said in re.findall(r'width="([\d.]+)" height="[\d.]+"><title>([^<]+)</title>', text)
    }
    assert math.isclose(widths["features: 200 ms"] / widths["models: 30 ms"], 200 / 30, rel_tol=0.01)
    assert math.isclose(widths["CPU: 122 ms"] / widths["features: 200 ms"], 122 / 200, rel_tol=0.01)
    assert "&lt;odd &amp; name&gt;: 1.0 ms" in widths


def test_every_drawing_is_written(rows: Path, tmp_path: Path) -> None:
    assert main([str(rows), "--out", str(tmp_path / "drawings")]) == 0
    assert sorted(path.name for path in (tmp_path / "drawings").iterdir()) == sorted(_NAMES)


@pytest.mark.parametrize("text", ['{"rows": []}', "{}", "no JSON"])
def test_rows_that_are_none_are_told(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    assert main([str(path), "--out", str(tmp_path)]) == 2
    assert main([str(tmp_path / "none.json"), "--out", str(tmp_path)]) == 2
    assert "hint: " in capsys.readouterr().err


@pytest.mark.parametrize(("longest", "step"), [(0.004, 0.001), (1, 0.2), (6, 1), (900, 200), (1_234, 500)])
def test_gridlines_stand_at_round_numbers(longest: float, step: float) -> None:
    assert math.isclose(step_of(longest), step)
