"""HAProxy missing, too old, its configuration refused, its socket gone: each a clear error with one remedy."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.serve.served import until

from greenlane.errors import FrontError, ServeError
from greenlane_serve.haproxy import found
from greenlane_serve.haproxy.front import Haproxy
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.processes import Children
from tests.servers.server import find


def test_a_missing_haproxy_names_the_command_that_installs_it(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    for text, command in (
        ('ID=ubuntu\nID_LIKE="debian"\n', "apt-get install haproxy"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install haproxy"),
        ("ID=plan9\n", "install your system's package haproxy"),
    ):
        release.write_text(text)
        with pytest.raises(FrontError, match=f"haproxy=None, expected HAProxy 2.6 or later\nhint: {command}"):
            found.found(str(tmp_path), release)


@pytest.mark.parametrize(("says", "value"), [("HAProxy version 2.2.9-2+deb11u6", "2.2.9"), ("hello", "hello")])
def test_a_haproxy_that_is_too_old_or_none_is_refused(tmp_path: Path, says: str, value: str) -> None:
    program = tmp_path / "haproxy"
    program.write_text(f"#!/bin/sh\necho '{says} 2022/08/14 - https://haproxy.org/'\n")
    program.chmod(0o755)
    with pytest.raises(FrontError, match=value):
        found.found(str(tmp_path))


@pytest.mark.system
def test_a_configuration_that_is_refused_says_why(tmp_path: Path) -> None:
    file = tmp_path / "haproxy.cfg"
    file.write_text("frontend in\n    bnid 127.0.0.1:1\n")
    with pytest.raises(FrontError, match=r"configuration='bnid 127.0.0.1:1', .*unknown keyword 'bnid'") as caught:
        found.check(find("haproxy", name="HAProxy"), file)
    assert caught.value.exit_code == 2


@pytest.mark.system
@pytest.mark.slow
def test_a_front_that_is_stopped_is_killed_at_the_second_call(tmp_path: Path) -> None:
    children = Children()
    front = Haproxy(find("haproxy", name="HAProxy"), tmp_path, children.start)
    timeouts = "".join(f"    timeout {one} 1s\n" for one in ("client", "server", "connect"))
    front.run(f"listen in\n    mode http\n{timeouts}    bind unix@{tmp_path}/in\n", ())
    assert front.child is not None
    front.child.signal(signal.SIGSTOP)
    front.end()
    front.end()
    until(lambda: Path(f"/proc/{front.child.pid}/stat").read_text().split()[2] == "Z")
    (ended,) = children.reap()
    assert front.died(*ended)
    assert ended[1] == -signal.SIGKILL


def test_a_socket_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServeError, match=r"runtime socket=.*No such file"):
        Runtime(tmp_path / "runtime").rows()
