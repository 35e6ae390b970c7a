"""`greenlane plan SOURCE`, `diff` and `profile`: what they print where, what they write, what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.plan.models import PRICING, pricing
from tests.plan.profiles import BIKES

from greenlane.cli.main import main
from greenlane.errors import PlanError
from greenlane.settings import Lane, load
from greenlane_tools.plan.options import Candidate, Option
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.settings import _keys, checked, command_of, glob_of
from tests import recordings

Run = Callable[..., tuple[int, str, str]]
_GOAL = ("--goal", "bikes p99 <= 400ms", "--jobs", "10000")


@pytest.fixture(scope="module")
def recorded() -> bytes:
    return recordings.pricing(seconds=5)


@pytest.fixture
def run(tmp_path: Path, recorded: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a folder that has a recording and two models."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pricing.glr").write_bytes(recorded)
    (tmp_path / "bikes.toml").write_text(BIKES, "utf-8")
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


def test_a_profile_is_written_and_is_the_recordings(run: Run, tmp_path: Path) -> None:
    code, out, err = run("profile", "pricing.glr", "-o", "p.json")
    assert (code, out) == (0, "") and "profile: p.json (" in err
    assert run("profile", "p.json", "-o", "-")[1].rstrip("\n").encode() == (tmp_path / "p.json").read_bytes()


def test_diff_finds_a_slower_release_and_no_other(run: Run, tmp_path: Path) -> None:
    (tmp_path / "new.toml").write_text(BIKES.replace("mean = 16", "mean = 28"), "utf-8")
    code, out, _ = run("diff", "bikes.toml", "new.toml")
    assert code == 0 and out.startswith("The cliff is nearer") and "quote: CPU a request 16 ms before, 28 ms now" in out
    rows = json.loads(run("diff", "--json", "bikes.toml", "new.toml")[1])["rows"]
    changed = {(row["endpoint"], row["measure"]) for row in rows if row.get("changed")}
    assert ("quote", "cpu_ms") in changed and not any(
        endpoint == "bikes" and what == "cpu_ms" for endpoint, what in changed
    )
    same = json.loads(run("diff", "--json", "bikes.toml", "bikes.toml")[1])["rows"]
    assert not any(row.get("changed") for row in same)


@pytest.mark.parametrize(
    ("argv", "says", "hint"),
    [
        (["profile", "absent.glr", "-o", "-"], "expected a file or folder that exists", "greenlane record"),
        (["profile", "empty", "-o", "-"], "expected a folder with files named *.glr", "was recorded there"),
        (["profile", "cut.json", "-o", "-"], "read cut.json: profile=", "cut or changed"),
        (["profile", "wrong.toml", "-o", "-"], "host='gevnt', expected one of", "did you mean 'gevent'?"),
        (["diff", "bikes.toml", "pricing.glr"], "a route of both", "two profiles of one service"),
        (["profile", "bikes.toml", "-o", "no/such/p.json"], "-o='no/such/p.json'", "name another"),
        (["profile", "bikes.toml", "-o", "-", "--skip", "x"], "expected seconds from", "profile --help"),
    ],
)
def test_what_it_cannot_do_is_said_with_a_hint(run: Run, tmp_path: Path, argv: list[str], says: str, hint: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "cut.json").write_text('{"schema": "greenlane.profile/1", "routes": [', "utf-8")
    (tmp_path / "wrong.toml").write_text(
        'host = "gevnt"\n' + BIKES.partition("\n")[2].replace('host = "gevent"', ""), "utf-8"
    )
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert says in err and hint in err


@pytest.mark.parametrize("cut", [0.3, 0.97])
def test_a_cut_recording_is_profiled_as_far_as_it_goes(run: Run, tmp_path: Path, recorded: bytes, cut: float) -> None:
    (tmp_path / "cut.glr").write_bytes(recorded[: int(len(recorded) * cut)])
    code, out, err = run("profile", "cut.glr", "-o", "-")
    assert (code == 0 and "routes" in out) or (code == 2 and "hint: " in err)


# --- Set-ups as settings.


def _command(set_up: SetUp, *, stock: bool = False) -> str:
    return command_of(Option(Candidate("", set_up, "", 0, stock), None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("GET /bikes", "/bikes"),
        ("GET /v1/bikes/<int:id>", "/v1/bikes/17"),
        ("POST /orders/{order_id}/lines", "/orders/9/lines"),
        ("GET /a/:name/b", "/a/x/b"),
        ("GET /odd[1]/*", "/odd[1]/*"),
    ],
)
def test_a_lane_of_a_route_matches_its_name_and_its_requests(route: str, path: str) -> None:
    lane = Lane("kept", match=(glob_of(route),))
    assert lane.matches(route, path)
    assert lane.matches(f"{route.split()[0]} {path}", path)
    assert not lane.matches("GET /elsewhere", "/elsewhere")


def test_workers_of_tasks_are_as_many_as_there_are_processes() -> None:
    one = SetUp("celery", 1, 2, limit=6)
    assert _command(one) == "greenlane celery module:app"
    assert _command(replace(one, processes=2)) == "greenlane celery module:app    # 2 of these"
    assert _command(replace(one, processes=3, limit=1), stock=True) == "celery -A module worker -P prefork -c 3"


@pytest.mark.parametrize(
    ("set_up", "stock", "command"),
    [
        (SetUp("gevent", 2, 2, limit=1000), True, "gunicorn -k gevent --workers 2 module:app"),
        (SetUp("threads", 2, 2, limit=64), True, "gunicorn -k gthread --workers 2 --threads 64 module:app"),
        (SetUp("permits", 2, 2, queue="central"), False, "greenlane serve module:app"),
        (SetUp("asyncio", 3, 3), True, "uvicorn --workers 3 module:app"),
    ],
)
def test_a_set_up_is_a_command(set_up: SetUp, stock: bool, command: str) -> None:
    assert _command(set_up, stock=stock) == command


@pytest.mark.parametrize(
    ("limit", "each", "why"),
    [
        (8, 2, "8 calls together."),
        (7, 1, "4 calls together; simulated was one limit of 7 over all of them: the rest is not used."),
        (2, 1, "4 calls together; simulated was one limit of 2 over all of them: a process cannot have less than one."),
    ],
)
def test_a_bulkhead_is_never_larger_than_it_was_simulated_where_processes_can_share_it_out(
    limit: int, each: int, why: str
) -> None:
    lines = list(_keys(SetUp("celery", 4, 2, limit=6, upstream_limits={"taco": limit, "sushi": limit})))
    assert f"# task_limit = {each}" in lines
    text = " ".join(" ".join(lines).replace("#", "").split())
    assert f"Each of the 4 processes has a task_limit of its own, {why}" in text


def test_what_the_settings_refuse_is_not_written() -> None:
    with pytest.raises(PlanError, match="write the settings: workers=-1"):
        checked("workers = -1\n")
