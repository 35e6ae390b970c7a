"""A job whose permits are on sends with the GIL kept and within its phase; what would wait is done as ever."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lanes.burners import permits
from tests.probes.observer import Observer

from greenlane import phase
from greenlane._native import Recorder, send_at_once
from greenlane.errors import DeadlineExceeded
from greenlane.lanes.permits import Permits
from greenlane.phase import Kind

NOW = time.monotonic_ns
Send = Callable[[socket.socket, bytes], object]
SENDS: dict[str, Send] = {"send": lambda s, data: s.send(data), "sendall": lambda s, data: s.sendall(data)}
each = pytest.mark.parametrize("name", SENDS)


@pytest.fixture
def job() -> Iterator[Permits]:
    """Permits with a job of this thread."""
    given = permits()
    given.open(NOW(), 0, "GET /asks")
    yield given
    given.close()


@each
@pytest.mark.parametrize("timeout_s", [None, 5])
def test_what_fits_is_sent_within_the_phase(name: str, timeout_s: float | None, job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(timeout_s)
        assert seen.during(SENDS[name], ours, b"abcd") == []
        assert theirs.recv(9) == b"abcd"
        job.close()  # Without a job it is the socket's own call.
        assert seen.during(SENDS[name], ours, b"efgh") == [Kind.SOCKET]


@each
@pytest.mark.parametrize("data", [b"x" * 17_000, bytearray(b"abcd"), memoryview(b"abcd"), b""], ids=type)
def test_what_is_long_or_no_bytes_ends_a_phase(name: str, data: bytes, job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert seen.during(SENDS[name], ours, data) == [Kind.SOCKET]
        assert not data or theirs.recv(1 << 16) == data


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_neither_observed_nor_switched_off_it_is_the_sockets_own_call(mode: str, job: Permits, seen: Observer) -> None:
    job.set_mode(mode)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert seen.during(ours.send, b"abcd") == [Kind.SOCKET]
        job.set_mode("on")
        assert seen.during(ours.send, b"abcd") == []


def test_who_waits_for_room_ends_a_phase_and_loses_no_byte(job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        pieces = [bytes([number]) * 7001 for number in range(60)]
        came = bytearray()

        def read() -> None:
            while data := theirs.recv(1000):
                came.extend(data)

        reader = threading.Thread(target=read)
        reader.start()
        ends = [end for piece in pieces for end in seen.during(ours.sendall, piece)]
        ours.close()
        reader.join(20)
    assert came == b"".join(pieces)
    assert 0 < len(ends) <= len(pieces) and {*ends} == {Kind.SOCKET}


@each
def test_errors_are_the_sockets_own(name: str, job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(BrokenPipeError) as found:
        SENDS[name](ours, b"abcd")
    assert found.value.errno
    ours.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        SENDS[name](ours, b"abcd")


@each
def test_a_late_job_that_wants_to_know_is_told_before_it_sends(name: str, seen: Observer) -> None:
    given = permits(deadline_cancel=True)
    given.open(NOW(), NOW() - 1, "GET /late")
    phase.subscribe(given)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            with pytest.raises(DeadlineExceeded):
                SENDS[name](ours, b"abcd")
        finally:
            phase.unsubscribe(given)
            given.close()
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(9)


@each
def test_an_empty_datagram_is_sent_once(name: str, job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        theirs.setblocking(False)
        SENDS[name](ours, b"")
        assert theirs.recv(9) == b""
        with pytest.raises(BlockingIOError):
            theirs.recv(9)


class Elsewhere(socket.socket):
    """A guest's class whose `fileno` is another one."""

    def fileno(self) -> int:
        """No descriptor, to whom it may concern."""
        return -1


@each
def test_a_fileno_of_the_guests_own_is_not_asked(name: str, job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with Elsewhere(fileno=ours.detach()) as sender, theirs:
        assert seen.during(SENDS[name], sender, b"abcd") == []
        assert theirs.recv(9) == b"abcd"


def test_a_family_whose_sends_may_wait_in_the_kernel_lets_go_of_the_gil(job: Permits, seen: Observer) -> None:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW) as ours:
        assert send_at_once(ours, b"abcd") == 0
    assert send_at_once(object(), b"abcd") == 0


@each
def test_who_listens_for_a_broken_pipe_hears_of_it(name: str, job: Permits, seen: Observer) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGPIPE, lambda number, _frame: heard.append(number))
    try:
        ours, theirs = socket.socketpair()
        theirs.close()
        with ours, pytest.raises(BrokenPipeError):
            SENDS[name](ours, b"abcd")
    finally:
        signal.signal(signal.SIGPIPE, before)
    assert heard == [signal.SIGPIPE]


def test_a_recording_sees_the_call(job: Permits, seen: Observer, tmp_path: Path) -> None:
    recorder = Recorder()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        recorder.start(tmp_path, max_bytes=1 << 24, about="{}")
        try:
            assert seen.during(ours.send, b"abcd") == [Kind.SOCKET]
        finally:
            recorder.stop()
        assert seen.during(ours.send, b"abcd") == []
