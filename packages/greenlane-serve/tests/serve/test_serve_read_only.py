"""As in a container whose root file system is read-only: one run directory is all that a service writes to."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.serve.served import Served, until

pytestmark = [pytest.mark.system, pytest.mark.slow]

# In a mount namespace of its own: every file system read-only but the run directory, /dev/shm too.
READ_ONLY = """
for place in / /tmp /run /dev /dev/shm /var; do
    mountpoint -q $place && mount -o remount,bind,ro $place
done
mount -t tmpfs none "$0" && exec "$@"
"""
METADATA = "Metadata-Version: 2.1\nName: greenlane-serve\nVersion: {}\n"
SETTINGS = 'workers = 2\nhealth_path = "/healthz"\nmetrics_path = "/metrics"\naccess_log = "stdout"\n'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("read-only")
    run, installed = folder / "run", folder / "greenlane_serve-1.0.dist-info"
    run.mkdir()
    installed.mkdir()
    (installed / "METADATA").write_text(METADATA.format("1.0"))
    (installed / "entry_points.txt").write_text(distribution("greenlane-serve").read_text("entry_points.txt") or "")
    before = ("unshare", "-m", "sh", "-c", READ_ONLY, str(run))
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root, for a mount namespace")
    environ = {"RUNTIME_DIRECTORY": str(run), "TMPDIR": str(run), "PYTHONPATH": str(folder)}
    with Served(folder, "looped:app", SETTINGS, environ=environ, before=before) as served:
        yield served


def test_one_writable_run_directory_is_enough(served: Served) -> None:
    (where,) = Path(f"/proc/{served.process.pid}/root{served.folder}/run").glob("greenlane-*/front.pid")
    assert where.exists()
    assert not os.access(f"/proc/{served.process.pid}/root/tmp", os.W_OK)
    assert served.get("/healthz") == "ok\n"
    assert "greenlane_serve_workers" in served.get("/metrics")
    for victim in (served.workers()[0], served.front()):
        os.kill(victim, signal.SIGKILL)
        until(lambda victim=victim: victim not in {*served.workers(), int(where.read_text())})
        assert served.get("/x")
    served.reload()()
    assert served.get("/x")
    assert "Read-only" not in served.process.output


def test_another_version_is_told_at_a_reload(served: Served) -> None:
    (served.folder / "greenlane_serve-1.0.dist-info" / "METADATA").write_text(METADATA.format("2.0"))
    served.reload()()
    assert "greenlane-serve 2.0 is installed" in served.process.output
    assert "stay 1.0 until the service is started again" in served.process.output
    assert served.get("/x")
