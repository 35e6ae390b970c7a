"""`greenlane plan SOURCE`: what it prints where, what it writes, what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.plan.models import PRICING, pricing

from greenlane.cli.main import main
from greenlane.settings import load

Run = Callable[..., tuple[int, str, str]]
_GOAL = ("--goal", "bikes p99 <= 400ms", "--jobs", "10000")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a folder with a model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pricing.toml").write_text(PRICING, "utf-8")

    def plan(*argv: str) -> tuple[int, str, str]:
        try:
            code = main(["plan", *argv])
        except SystemExit as ended:
            code = int(str(ended.code))
        said = capsys.readouterr()
        return code, said.out, said.err

    return plan


@pytest.mark.slow
def test_a_source_and_a_goal_give_words_ways_and_settings(run: Run) -> None:
    code, out, err = run("pricing.toml", *_GOAL)
    assert (code, err) == (0, "")
    assert out.startswith("Serve it with ")
    for part in ("breaks at", "permits x1 (recommended)", "present", "greenlane.toml", "more ways were tried"):
        assert part in out


@pytest.mark.slow
def test_what_is_written_is_read_by_the_settings_loader(run: Run, tmp_path: Path) -> None:
    code, _, err = run("pricing.toml", *_GOAL, "--write", "greenlane.toml")
    assert code == 0
    assert "write: greenlane.toml" in err
    assert load(file=tmp_path / "greenlane.toml", environ={}).mode == "on"


@pytest.mark.slow
def test_with_nothing_to_change_no_settings_are_written(run: Run, tmp_path: Path) -> None:
    low = PRICING.replace("rate_per_s = 30", "rate_per_s = 3").replace("rate_per_s = 48", "rate_per_s = 4.8")
    (tmp_path / "low.toml").write_text(low, "utf-8")
    code, out, err = run("low.toml", *_GOAL, "--write", "greenlane.toml")
    assert code == 2
    assert out.startswith("Change nothing")
    assert "nothing is to be set" in err
    assert not (tmp_path / "greenlane.toml").exists()


@pytest.mark.slow
def test_a_what_if_plans_for_then(run: Run) -> None:
    code, out, _ = run("pricing.toml", *_GOAL, "--cpu", "quote=0.25x", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["schema"] == "greenlane.plan/1"
    assert {row["view"] for row in document["rows"]} == {"advice", "option", "route"}
    advice = document["rows"][0]
    assert advice["verdict"] == "nothing"
    assert advice["said"][0].startswith("Change nothing more: GET /bikes p99 <= 400 ms is met with the what-if alone, ")
    assert any(text.startswith("What if:") for text in advice["said"])


@pytest.mark.slow
def test_what_changes_nothing_meets_the_very_same_requests(run: Run, tmp_path: Path) -> None:
    was = pricing()
    # A benchmark, too short to tell its bursts from chance.
    arrivals = replace(was.arrivals, dispersion=1.3)
    (tmp_path / "bench.json").write_bytes(replace(was, seconds=60.0, arrivals=arrivals).to_json())
    found = [json.loads(run("bench.json", *_GOAL, *more, "--json")[1])["rows"] for more in ((), ("--cpu", "quote=1x"))]
    now, then = ([row for row in rows if row["view"] == "route" and row["contender"] == "present"] for rows in found)
    assert now == then


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--goal", "bikes p99"), "read the goal: --goal='bikes p99', expected"),
        (("--cost", "cores"), "unrecognized arguments"),
        (("--jobs", "5"), "expected a whole number from 10,000"),
        (("--split", "nobody"), "--split"),
    ],
)
def test_what_is_wrong_is_named_and_the_exit_code_is_2(run: Run, argv: tuple[str, ...], said: str) -> None:
    code, out, err = run("pricing.toml", *argv)
    assert (code, out) == (2, "")
    assert said in err
