"""Root opens ports and keys; front and workers are somebody else, who reads no key and reaches no admin socket."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.serve.served import COMMAND, Served, alive, until

from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

USER = "nobody"
# What a worker may try, as WSGI and in one word each.
APP = """
import os, socket
from pathlib import Path

KEY, RUN = Path(os.environ["KEY"]), Path(os.environ["RUN"])

def tried(what):
    try:
        what()
    except OSError as error:
        return type(error).__name__
    return "done"

def connect(path):
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))

def app(environ, start_response):
    own = next(iter(RUN.glob("greenlane-*/front.pid")), None) or Path(os.environ["FRONT"])
    said = [os.getuid(), os.getpid(), tried(KEY.read_text), tried((own.parent / "tls.pem").read_text),
            tried(lambda: connect(own.parent / "runtime"))]
    start_response("200 OK", [])
    return [" ".join(map(str, said)).encode()]
"""


# Without the standard library of this interpreter: the other one has its own.
LIBRARIES = [one for one in sys.path if one and not one.startswith(f"{sys.base_prefix}/lib")]


def uid(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def interpreter() -> str:
    """One that the user may run: a virtual environment may stand on one in root's home."""
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-c", "import ssl, greenlane._native, gunicorn"]
        environ = {**os.environ, "PYTHONPATH": ":".join(LIBRARIES)}
        with contextlib.suppress(OSError):
            if subprocess.run(command, user=USER, env=environ, capture_output=True, check=False).returncode == 0:
                return python
    pytest.skip(f"no interpreter that {USER} can run")


@pytest.fixture
def dropped(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    if os.geteuid():
        pytest.skip("needs root")
    python = interpreter()
    folder = tmp_path_factory.mktemp("dropped")
    for one in (folder, *folder.parents):
        if one.stat().st_uid == os.geteuid() and one.name:
            one.chmod(one.stat().st_mode | 0o055)
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a", "-days", "2", "-keyout", key]
        + ["-out", certificate],
        capture_output=True, check=True,
    )  # fmt: skip
    key.chmod(0o600)
    (folder / "held2.py").write_text(APP)
    run = folder / "run"
    run.mkdir(mode=0o755)
    tls = f"127.0.0.1:{child.free_port()}"
    settings = (
        f'workers = 2\nuser = "{USER}"\ntls_bind = ["{tls}"]\ntls_certificate = "{certificate}"\n'
        f'tls_key = "{key}"\nmetrics_path = "/metrics"\nlanes.few = {{ match = ["/few*"], at_once = 1 }}\n'
    )
    environ = {
        "RUNTIME_DIRECTORY": str(run), "KEY": str(key), "RUN": str(run), "FRONT": str(run),
        "PYTHONPATH": ":".join([str(folder), *LIBRARIES]), "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    monkeypatch.setattr(sys, "executable", python)
    with Served(folder, "held2:app", settings, environ=environ) as served:
        served.tls = tls  # type: ignore[attr-defined]
        yield served


def test_the_user_reads_no_key_and_reaches_no_admin_socket(dropped: Served) -> None:
    wanted = pwd.getpwnam(USER).pw_uid
    assert {uid(pid) for pid in (*dropped.workers(), dropped.front())} == {wanted}
    said = dropped.get("/x").split()
    assert said[0] == str(wanted)
    assert said[2] == "PermissionError"
    assert "done" not in said[3:]
    assert dropped.get("/few/x").split()[0] == str(wanted)  # through a gate
    until(lambda: "greenlane_serve_workers" in dropped.get("/metrics"))
    context = ssl.create_default_context(cafile=str(dropped.folder / "cert.pem"))
    context.check_hostname = False
    command = [sys.executable, "-c", COMMAND, "serve", "--status", "--bind", f"127.0.0.1:{dropped.port}"]
    environ = {**os.environ, "RUNTIME_DIRECTORY": str(dropped.folder / "run"), "PYTHONPATH": ":".join(LIBRARIES)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert "shared/w1" in done.stdout, done.stderr
    host, port = dropped.tls.rsplit(":", 1)  # type: ignore[attr-defined]
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain) as secure:
        secure.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert secure.recv(65536).startswith(b"HTTP/1.1 200")


def test_reloads_ends_and_deaths_are_as_without_it(dropped: Served) -> None:
    before = set(dropped.workers())
    dropped.reload()()
    assert not before & set(dropped.workers())
    front, workers = dropped.front(), dropped.workers()
    os.kill(front, signal.SIGKILL)
    until(lambda: dropped.get("/x"))
    front = dropped.front()
    os.kill(dropped.process.pid, signal.SIGKILL)
    until(lambda: not list(alive([front, *workers])), timeout_s=60)


# --- As in a container whose root file system is read-only: one run directory is all that a service writes to.


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
