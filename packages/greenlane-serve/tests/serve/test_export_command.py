"""`greenlane export`: what it writes where, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from greenlane.cli.main import main

TOML = """
workers = 4
[lanes.mine]
match = ["/mine*"]
kind = "hard"
processes = 1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "greenlane.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_for_each_front(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target, said in (("haproxy", "backend lane-mine"), ("nginx", "upstream lane-mine"), ("envoy", "lane-mine")):
        assert main(["export", target, "--server", "10.0.0.1:8000", "--listen", "0.0.0.0:80"]) == 0
        assert said in capsys.readouterr().out


def test_manifests_are_yaml_without_references(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "kubernetes", "--application", "shop:app", "--image", "shop:7"]) == 0
    said = capsys.readouterr()
    nodes = list(yaml.safe_load_all(said.out))
    assert [node["kind"] for node in nodes if node["metadata"]["name"] == "app-mine"][:2] == ["ConfigMap", "Deployment"]
    assert "greenlane.toml: |" in said.out
    assert "&id" not in said.out
    assert "docs/scaling.md" in said.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["haproxy"], "haproxy needs --server"), (["kubernetes", "--image", "x"], "kubernetes needs --application"),
        (["nginx", "--server", "a:1", "--fronts", "2"], "--fronts does nothing for nginx"),
        (["haproxy", "--server", "a:1", "--fronts", "0"], "--fronts must be"),
        (["kubernetes", "--image", "x", "--application", "a:b", "--pods", "9-2"], "--pods must be"),
        (["vulcand"], "invalid choice"),
    ],
)  # fmt: skip
def test_usage_that_does_nothing_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", *flags])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_an_address_that_is_none_is_a_settings_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "nginx", "--server", "a:1", "--listen", "a b"]) == 2
    assert "expected host:port" in capsys.readouterr().err
