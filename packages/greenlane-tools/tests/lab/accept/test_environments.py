"""Throw-away environments: what cannot be installed is left out with its reason, nothing half-made is used."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from greenlane_tools.lab.accept.environments import CURRENT, Recipe, existing, reason


def test_the_folder_names_server_version_and_interpreter():
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    assert Recipe("gunicorn", "20.0.4").folder == f"gunicorn-20.0.4-{version}"
    assert Recipe("uvicorn", CURRENT, ("uvloop",)).requirements() == ["uvicorn", "uvloop"]
    assert Recipe("gunicorn", "20.0.4", ("setuptools<81",)).requirements() == ["gunicorn==20.0.4", "setuptools<81"]


def test_an_environment_that_was_not_finished_is_not_used(tmp_path: Path):
    recipe = Recipe("gunicorn", "20.0.4")
    folder = tmp_path / recipe.folder
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    assert existing(recipe, tmp_path) is None
    (folder / "ready.json").write_text(json.dumps({"gunicorn": "20.0.4"}))
    found = existing(recipe, tmp_path)
    assert found is not None and found.versions == {"gunicorn": "20.0.4"}


def test_without_a_connection_the_reason_is_that_one_is_offline():
    said = (
        "WARNING: Retrying … after connection broken by 'NewConnectionError(… Temporary failure in name resolution)'\n"
    )
    assert reason(f"{said}ERROR: No matching distribution found for gunicorn") == (
        "offline: pip cannot reach the package index"
    )
    assert reason("ERROR: No matching distribution found for gunicorn==0\n[notice] a new pip") == (
        "pip: ERROR: No matching distribution found for gunicorn==0"
    )


def test_the_interpreter_is_named_wherever_the_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recipe = Recipe("gunicorn", "20.0.4")
    (tmp_path / recipe.folder / "bin").mkdir(parents=True)
    (tmp_path / recipe.folder / "bin" / "python").touch()
    (tmp_path / recipe.folder / "ready.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    found = existing(recipe, Path())
    assert found is not None and found.python == tmp_path / recipe.folder / "bin" / "python"
