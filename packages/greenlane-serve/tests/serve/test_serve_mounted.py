"""What a host or a site around the service decides: the path below which it is, and who opens its sockets."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from tests.serve.served import APPS, COMMAND, Served
from tests.serve.wire import KINDS, records, talk

from greenlane.cli.main import main
from greenlane.errors import ServeError
from greenlane_serve.haproxy import found
from greenlane_serve.processes import activated
from tests import child

HEAD = b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_application_below_a_path_gets_its_prefix(tmp_path: Path, kind: str) -> None:
    with Served(tmp_path, f"seen:{kind}", 'workers = 1\nroot_path = "/shop"\n', "--kind", kind) as served:
        for path in (b"/shop/a", b"/shop", b"/shopping"):
            assert b" 200 " in talk(served.port, HEAD % path).split(b"\r\n")[0]
        seen = [(one["client"][2], one["target"]) for one in records(served)]
    # ASGI's path is whole, WSGI's is what follows.
    inside = [("/shop", "/a"), ("/shop", "")] if kind == "wsgi" else [("/shop", "/shop/a"), ("/shop", "/shop")]
    assert seen == [*inside, ("", "/shopping")]


# Opens a socket as systemd does, gives it as descriptor 3, and becomes the command.
ACTIVATE = """
import os, socket, sys
sock = socket.create_server(("127.0.0.1", int(sys.argv[1])))
if sock.fileno() == 3:
    sock.set_inheritable(True)
else:
    os.dup2(sock.fileno(), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.system
@pytest.mark.slow
def test_a_socket_of_systemd_is_listened_on(tmp_path: Path) -> None:
    port = child.free_port()
    command = [sys.executable, "-c", COMMAND, "serve", "seen:wsgi", "--kind", "wsgi", "--workers", "1"]
    for bind, said in ((port, r"serving .* on "), (child.free_port(), rf"name it: bind = \['127.0.0.1:{port}'\]")):
        process = child.Child(
            [sys.executable, "-c", ACTIVATE, str(port), *command, "--bind", f"127.0.0.1:{bind}"],
            cwd=APPS, env={"HELD": str(tmp_path)},
        )  # fmt: skip
        try:
            process.wait_output(said, timeout_s=60)
            if bind == port:
                assert b" 200 " in talk(port, HEAD % b"/").split(b"\r\n")[0]
        finally:
            process.end(grace_s=10)


def test_sockets_of_another_process_are_left_alone() -> None:
    environ = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid() + 1)}
    assert activated(["127.0.0.1:80"], environ) == {}
    assert environ == {}  # nobody else takes them for its own


def test_what_is_no_socket_is_refused_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    read_fd, write_fd = os.pipe()
    monkeypatch.setattr("greenlane_serve.processes._FIRST_FD", read_fd)
    with pytest.raises(ServeError, match=f"LISTEN_FDS={read_fd}, expected a stream socket"):
        activated(["127.0.0.1:80"], {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())})
    os.close(read_fd)
    os.close(write_fd)


@pytest.mark.parametrize("unix", [False, True])
def test_a_socket_goes_to_the_address_that_it_has(tmp_path: Path, unix: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    where = str(tmp_path / "front") if unix else ("127.0.0.1", child.free_port())
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET) as sock:
        sock.bind(where)
        sock.listen()
        monkeypatch.setattr("greenlane_serve.processes._FIRST_FD", sock.fileno())
        environ = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())}
        address = where if isinstance(where, str) else f"localhost:{where[1]}"
        found = activated([address, "127.0.0.1:1"], dict(environ))
        assert {name: one.getsockname() for name, one in found.items()} == {address: where}
        found[address].detach()


@pytest.mark.system
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "said"), [("wsgi", "threads is not set"), ("asgi", "Finished server process")])
def test_the_server_in_a_worker_logs_from_the_level_that_is_asked_for(tmp_path: Path, kind: str, said: str) -> None:
    for level in ("debug", "warning"):
        folder = tmp_path / level
        folder.mkdir()
        with Served(folder, f"seen:{kind}", f'workers = 1\nlog_level = "{level}"\n', "--kind", kind) as served:
            assert b" 200 " in talk(served.port, HEAD % b"/a").split(b"\r\n")[0]
        assert (said in served.process.output) is (level == "debug")


# --- What cannot be served is refused on the command line: one message that names it, one hint, exit code 2.


LANE = '[lanes.one]\nmatch = ["/one*"]\n'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (f'{LANE}kind = "hard"\n', "lanes.one.processes=0, expected at least 1 for a hard lane"),
        (f'{LANE}[lanes.two]\nmatch = ["/one/two"]\n', "requests that lane 'one' above it does not take already"),
        (f"workers = 2\n{LANE}processes = 2\n", "workers=2, expected over 2, what the lanes keep"),
        (f'{LANE}[lanes.two]\nmatch = ["two.view"]\n', "the front sees no other route"),
    ],
    ids=["a lane without workers", "two lanes that match", "nothing for the rest", "no path"],
)
def test_lanes_that_cannot_hold(
    settings: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GREENLANE_CONFIG", raising=False)
    (tmp_path / "greenlane.toml").write_text(settings)
    assert main(["serve", "app:app", "--kind", "wsgi"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "hint: " in error


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("", "haproxy=None, expected HAProxy 2.6 or later"),
        ("echo HAProxy version 2.4.1", "'2.4.1', expected HAProxy 2.6 or later"),
    ],
    ids=["missing", "too old"],
)
def test_a_haproxy_that_will_not_do(
    program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if program:
        (tmp_path / "haproxy").write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / "haproxy").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(found, "_ALSO", os.pathsep)
    assert main(["serve", "app:app", "--kind", "wsgi"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "hint: " in error


@pytest.mark.slow
def test_an_application_that_is_none_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GREENLANE_CONFIG", raising=False)
    assert main(["serve", "nowhere_at_all:app"]) == 2
    error = capfd.readouterr().err
    assert "application='nowhere_at_all:app', expected a module that can be imported" in error
    assert error.count("hint: ") == 1
