"""`greenlane`, run in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from greenlane.cli.main import main


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
