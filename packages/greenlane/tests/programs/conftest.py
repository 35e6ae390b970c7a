"""One environment with the programs, made once and kept in the checkout's temporary folder."""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

import pytest

HERE = Path(__file__).parent
collect_ignore = ["apps"]  # programs that the tests run, one of them a suite of its own
_REQUIREMENTS = HERE / "requirements.txt"


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of an environment with all packages of requirements.txt, and this greenlane in place."""
    wanted = _REQUIREMENTS.read_text() + sys.version + str(HERE)
    name = "greenlane-programs-" + hashlib.sha256(wanted.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), name)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            _make(folder)
    return folder / "bin" / "python"


def has(python: Path, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def _make(folder: Path) -> None:
    venv.create(folder, clear=True, with_pip=True)
    python = folder / "bin" / "python"
    for package in _REQUIREMENTS.read_text().split():
        made = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode and "uwsgi" not in package:  # built from source: without it its tests are skipped
            pytest.skip(f"{package} cannot be installed here: {made.stderr.strip()[-200:]}")
    place = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (place / "greenlane-in-place.pth").write_text(str(Path(__file__).resolve().parents[2] / "src"))
    (folder / "whole").touch()
