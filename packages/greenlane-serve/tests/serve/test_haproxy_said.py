"""What HAProxy says goes on to the log, except its farewell to each proxy."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.serve.served import until

from greenlane_serve.haproxy.front import Haproxy, Said, news
from greenlane_serve.haproxy.requests import on_stderr
from greenlane_serve.processes import ChildProcess
from tests.servers.server import find

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
