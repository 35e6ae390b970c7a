"""`greenlane plan diff` and `profile`: what they print where, what they write, what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.plan.profiles import BIKES

from greenlane.cli.main import main
from tests.recordings import pricing

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def recorded() -> bytes:
    return pricing(seconds=5)


@pytest.fixture
def run(tmp_path: Path, recorded: bytes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in a folder that has a recording and a model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pricing.glr").write_bytes(recorded)
    (tmp_path / "bikes.toml").write_text(BIKES, "utf-8")

    def plan(*argv: str) -> tuple[int, str, str]:
        try:
            code = main(["plan", *argv])
        except SystemExit as ended:
            code = int(str(ended.code))
        said = capsys.readouterr()
        return code, said.out, said.err

    return plan


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
