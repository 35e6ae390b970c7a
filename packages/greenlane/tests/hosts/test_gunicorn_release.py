"""The worker follows private parts of one release of gunicorn: every other one is refused by name, before any use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

LOOK = """
import sys
sys.path.insert(0, sys.argv[1])
from greenlane.errors import HostError
try:
    from greenlane.hosts.gunicorn import Worker
except HostError as error:
    assert not any(name.startswith("gunicorn") for name in sys.modules)
    print(error)
else:
    print("known")
"""


@pytest.mark.parametrize(
    ("release", "is_known"), [("23.0.0", False), ("26.2.0", False), ("27.0.1", True), ("27.9", True), ("28.0.0", False)]
)
def test_other_releases_are_refused_before_gunicorn_is_imported(
    release: str, is_known: bool, run_python: Callable[..., CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / f"gunicorn-{release}.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.1\nName: gunicorn\nVersion: {release}\n"
    (tmp_path / f"gunicorn-{release}.dist-info" / "METADATA").write_text(metadata)
    said = run_python(LOOK, str(tmp_path)).stdout
    if is_known:
        assert said == "known\n"
    else:
        assert f"gunicorn={release!r}, expected release 27" in said
        assert "pip install 'gunicorn>=27,<28'" in said and "greenlane.hosts.wsgi" in said


def _installed(release: str, folder: Path) -> Path:
    """That gunicorn in a folder for PYTHONPATH, with what 20 imports and no longer comes with Python."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    packages = [f"gunicorn=={release}", "packaging", *(["setuptools<81"] if release.startswith("20.") else [])]
    done = subprocess.run(
        [*pip, "--target", folder, "--no-deps", *packages], capture_output=True, text=True, check=False, timeout=120
    )
    if done.returncode:
        pytest.skip(f"{packages} cannot be installed here: {done.stderr.strip()[-200:]}")
    return folder


_NIGHTLY = ("20.0.4", "20.1.0", "21.2.0", "22.0.0", "23.0.0", "24.1.1", "25.3.0")


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize(
    "release", ["20.0.0", "26.2.0", *(pytest.param(each, marks=pytest.mark.soak) for each in _NIGHTLY)]
)
def test_an_older_gunicorn_prints_the_refusal_and_no_traceback(release: str, tmp_path: Path) -> None:
    folder = _installed(release, tmp_path / "gunicorn")

    def start(worker: str) -> CompletedProcess[str]:
        main = "from gunicorn.app.wsgiapp import run; run()"
        command = [sys.executable, "-W", "ignore", "-c", main, "-b", f"unix:{tmp_path}/socket", "-k", worker, "app:app"]
        environment = os.environ | {"PYTHONPATH": str(folder)}
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
        )

    refused, unknown = start("greenlane.hosts.gunicorn.Worker"), start("no.such.Worker")
    assert refused.stderr == (
        f"\nError: set up gunicorn's worker: gunicorn={release!r}, expected release 27\n"
        "hint: pip install 'gunicorn>=27,<28', or use the middleware greenlane.hosts.wsgi under gthread\n\n"
    )
    assert refused.returncode == unknown.returncode == 1
    assert "hint: gunicorn -k greenlane.hosts.gunicorn.Worker\n" in start("greenlane.hosts.gunicorn.worker").stderr
