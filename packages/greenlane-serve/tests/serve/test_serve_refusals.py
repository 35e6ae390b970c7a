"""What cannot be served is refused on the command line: one message that names it, one hint, exit code 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from greenlane.cli.main import main
from greenlane_serve.haproxy import found

LANE = '[lanes.one]\nmatch = ["/one*"]\n'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (f'{LANE}kind = "hard"\n', "lanes.one.processes=0, expected at least 1 for a hard lane"),
        (f'{LANE}[lanes.two]\nmatch = ["/one/two"]\n', "requests that lane 'one' above it does not take already"),
        (f"workers = 2\n{LANE}processes = 2\n", "workers=2, expected over 2, what the lanes keep"),
        (f'{LANE}[lanes.two]\nmatch = ["two.view"]\n', "the front sees no other route"),
    ],
    ids=["a lane without workers", "two lanes that match", "nothing for the rest", "no path"],
)
def test_lanes_that_cannot_hold(
    settings: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GREENLANE_CONFIG", raising=False)
    (tmp_path / "greenlane.toml").write_text(settings)
    assert main(["serve", "app:app", "--kind", "wsgi"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "hint: " in error


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("", "haproxy=None, expected HAProxy 2.6 or later"),
        ("echo HAProxy version 2.4.1", "'2.4.1', expected HAProxy 2.6 or later"),
    ],
    ids=["missing", "too old"],
)
def test_a_haproxy_that_will_not_do(
    program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if program:
        (tmp_path / "haproxy").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "haproxy").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(found, "_ALSO", os.pathsep)
    assert main(["serve", "app:app", "--kind", "wsgi"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "hint: " in error


@pytest.mark.slow
def test_an_application_that_is_none_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GREENLANE_CONFIG", raising=False)
    assert main(["serve", "nowhere_at_all:app"]) == 2
    error = capfd.readouterr().err
    assert "application='nowhere_at_all:app', expected a module that can be imported" in error
    assert error.count("hint: ") == 1
