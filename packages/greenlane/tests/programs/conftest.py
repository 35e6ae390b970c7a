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


@pytest.fixture(scope="session")
def uwsgi(python: Path) -> Path:
    """uWSGI in that environment, built from source."""
    _install(python.parent.parent, "uwsgi==2.0.31")
    return python.parent / "uwsgi"


def has(python: Path, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def _install(folder: Path, *packages: str) -> None:
    # By our own pip: theirs would take longer than some of the packages.
    command = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--quiet"]
    made = subprocess.run(
        [*command, "--disable-pip-version-check", *packages], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"{packages} cannot be installed here: {made.stderr.strip()[-200:]}")


def _make(folder: Path) -> None:
    venv.create(folder, clear=True, with_pip=False)
    _install(folder, *_REQUIREMENTS.read_text().split())
    place = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (place / "greenlane-in-place.pth").write_text(str(Path(__file__).resolve().parents[2] / "src"))
    (folder / "whole").touch()
