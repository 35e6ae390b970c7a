"""Where shares lie: a folder, and a real Redis."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from greenlane.cli.main import main


@pytest.fixture(params=["file", pytest.param("redis", marks=[pytest.mark.system, pytest.mark.slow])])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place that nobody has used."""
    if request.param == "file":
        return f"file://{tmp_path}/shares"
    return str(request.getfixturevalue("redis_url"))


@pytest.fixture
def flow() -> str:
    """A queue's name of the test's own: one Redis serves all tests."""
    return f"orders-{uuid.uuid4().hex[:12]}"


class Said(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def run_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run `greenlane` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def greenlane(*argv: str) -> Said:
        capsys.readouterr()
        try:
            code = main(argv)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Said(code, *capsys.readouterr())

    return greenlane
