"""Under a service manager `greenlane record` is not in its command's way: sockets it is given, and its READY=1."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.record.command import GREENLANE, environment

pytestmark = pytest.mark.slow


def test_a_socket_of_the_managers_comes_to_the_command(tmp_path: Path) -> None:
    source = """
import os, socket
assert os.environ["LISTEN_PID"] == str(os.getpid()), os.environ["LISTEN_PID"]
listener = socket.socket(fileno=3)
import greenlane.record
with greenlane.record.job("accept"):
    connection, _ = listener.accept()
connection.sendall(b"served")
"""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [*GREENLANE, "record", "-o", "r.glr", "--", sys.executable, "-c", source]
        # As systemd does it: the descriptor is number 3, the variable names the process that it starts.
        script = 'exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
        started = subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", *command], cwd=tmp_path, env=environment(), stdin=listener
        )
        with socket.create_connection(listener.getsockname(), timeout=20) as client:
            assert client.recv(100) == b"served"
        assert started.wait(20) == 0
    assert (tmp_path / "r.glr").exists()


def test_the_manager_hears_who_its_main_process_is(tmp_path: Path) -> None:
    source = """
import os, socket
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.connect(os.environ["NOTIFY_SOCKET"])
manager.send(b"READY=1 of %d" % os.getpid())
import greenlane.record
with greenlane.record.job("one"): pass
"""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "n"))
        manager.settimeout(20)
        started = subprocess.Popen(
            [*GREENLANE, "record", "-o", "r.glr", "--", sys.executable, "-c", source],
            cwd=tmp_path,
            env=environment(NOTIFY_SOCKET=str(tmp_path / "n")),
        )
        first, second = manager.recv(100).decode(), manager.recv(100).decode()
        assert started.wait(20) == 0
    name, _, pid = first.partition("=")
    assert (name, second) == ("MAINPID", f"READY=1 of {pid}")
    assert int(pid) not in (started.pid, os.getpid())
