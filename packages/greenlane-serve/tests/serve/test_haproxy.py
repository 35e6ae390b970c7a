"""The text that HAProxy gets: as written down here, and as HAProxy reads it.

To renew golden.cfg after a deliberate change: `python -m tests.serve.test_haproxy`.
"""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.serve.served import until

from greenlane.errors import FrontError, ServeError
from greenlane.settings import Lane
from greenlane_serve.haproxy import found
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.haproxy.front import Haproxy, Said, news
from greenlane_serve.haproxy.requests import on_stderr
from greenlane_serve.haproxy.routing import FILE
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.haproxy.site import FrontServer, Site, word
from greenlane_serve.lanes import layout_of
from greenlane_serve.processes import ChildProcess, Children
from greenlane_serve.settings import ServeSettings
from greenlane_serve.trust import Trust
from tests.servers.server import find

GOLDEN = Path(__file__).with_name("golden.cfg")
LANES = (
    Lane("phones", match=("GET /bikes/*", "/rides/<id>"), headers={"X-Client": "it's a phone*"}, processes=1,
         priority=10, deadline_ms=250),
    Lane("hogs", match=("/hog",), at_once=2, priority=-5, deadline_ms=2000),
    Lane("reports", match=("/report*", "/a b\"'\\#$x"), kind="hard", processes=1, deadline_ms=60_000),
)  # fmt: skip


def site(folder: Path, lanes: tuple[Lane, ...] = LANES, trust: Trust | None = None) -> Site:
    layout = layout_of(ServeSettings(workers=4, lanes=lanes))
    servers = {
        group: [FrontServer(f"w{one}", folder / f"{group}-{one}", 2, one <= workers) for one in range(1, workers + 2)]
        for group, workers in layout.groups.items()
    }  # fmt: skip
    return Site(
        layout, servers, ["127.0.0.1:21987"], folder, dict.fromkeys(layout.groups, 2), health_path="/healthz",
        trust=trust or Trust(),
    )  # fmt: skip


def test_the_text_is_the_one_written_down() -> None:
    assert configuration(site(Path("/run/greenlane"))) == GOLDEN.read_text()


def test_without_lanes_there_is_one_queue_and_no_gate() -> None:
    text = configuration(site(Path("/run/greenlane"), ()))
    assert "gate" not in text
    assert text.count("\nbackend ") == 1
    assert "default_backend shared" in text


@pytest.mark.system
@pytest.mark.parametrize(("lanes", "threads"), [(LANES, 1), ((), 3)])
def test_haproxy_accepts_it(tmp_path: Path, lanes: tuple[Lane, ...], threads: int) -> None:
    text = configuration(replace(site(tmp_path, lanes), threads=threads))
    assert f"nbthread {threads} " in text
    (tmp_path / "haproxy.cfg").write_text(text)
    (tmp_path / FILE).touch()
    command = [find("haproxy", name="HAProxy"), "-c", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr


@pytest.mark.parametrize("text", ["a", "a b", "it's", '"$HOME"', "\\", "#", "", "ü"])
def test_a_word_means_itself(text: str) -> None:
    said = subprocess.run(["sh", "-c", f"printf %s {word(text)}"], capture_output=True, text=True, check=True).stdout
    assert said == text  # HAProxy's single quotes are the shell's


# --- HAProxy missing, too old, its configuration refused, its socket gone: each a clear error with one remedy.


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


# --- What HAProxy says goes on to the log, except its farewell to each proxy.


# As HAProxy 2.6 writes it when it ends.
FAREWELL = b"""\
[WARNING]  (29710) : Proxy GLOBAL stopped (cumulated conns: FE: 0, BE: 0).
[WARNING]  (29710) : Proxy public stopped (cumulated conns: FE: 12, BE: 0).
[WARNING]  (29710) : Proxy lane-hogs stopped (cumulated conns: FE: 0, BE: 7).
[WARNING]  (29710) : Proxy <HTTPCLIENT> stopped (cumulated conns: FE: 0, BE: 0).
"""
NEWS = b"""\
[WARNING]  (29710) : Server shared/w1 is going DOWN for maintenance. 1 active and 0 backup servers left.
[ALERT]    (29710) : sendmsg()/writev() failed in logger #1: Connection refused (errno=111)
[WARNING]  (29710) : Proxy public stopped (cumulated conns: FE: 1, BE: 1). And more.
  call trace(18):
"""


def test_only_the_farewells_are_no_news() -> None:
    assert news(FAREWELL.splitlines(keepends=True)) == []
    assert b"".join(news((NEWS + FAREWELL).splitlines(keepends=True))) == NEWS


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_lines_go_on_however_they_are_cut(size: int) -> None:
    text = NEWS + FAREWELL + NEWS + b"an end without a line"
    reads, writes = os.pipe()
    said = Said(writes)
    for at in range(0, len(text), size):
        os.write(said.write_fd, text[at : at + size])
        said.pass_on()
    said.close()
    assert os.read(reads, 10_000) == NEWS + NEWS + b"an end without a line"
    for fd in (reads, writes):
        os.close(fd)


def test_a_front_never_waits_for_its_words_to_be_read() -> None:
    said = Said()
    with pytest.raises(BlockingIOError):
        for _ in range(100):
            os.write(said.write_fd, FAREWELL * 100)
    said.close()


def test_an_access_log_on_stderr_is_seen() -> None:
    assert on_stderr("frontend public\n    log stderr len 16384 format raw local0\n")
    assert not on_stderr("frontend public\n    log stdout len 16384 format raw local0\n")


@pytest.mark.system
@pytest.mark.slow
def test_a_real_front_ends_without_a_word(tmp_path: Path) -> None:
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    said = Said(writes)
    front = Haproxy(find("haproxy", name="HAProxy"), tmp_path, ChildProcess, said.write_fd)
    timeouts = "".join(f"    timeout {one} 1s\n" for one in ("client", "server", "connect"))
    front.run(f"listen in\n    mode http\n{timeouts}    bind unix@{tmp_path}/in\n", ())
    assert front.child is not None
    until(lambda: (tmp_path / "in").exists())
    front.child.signal(signal.SIGUSR1)
    pid, status = os.waitpid(front.child.pid, 0)
    assert front.died(pid, os.waitstatus_to_exitcode(status))
    said.close()
    with pytest.raises(BlockingIOError):
        os.read(reads, 10_000)
    for fd in (reads, writes):
        os.close(fd)


if __name__ == "__main__":
    GOLDEN.write_text(configuration(site(Path("/run/greenlane"))))
