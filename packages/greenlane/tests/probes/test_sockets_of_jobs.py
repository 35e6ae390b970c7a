"""A job whose permits are on sends with the GIL kept and within its phase; what would wait is done as ever."""

from __future__ import annotations

import errno
import signal
import socket
import struct
import subprocess
import sys
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


class RemoteExecutors(socket.socket):
    """A guest's class whose `fileno` is another one."""

    def fileno(self) -> int:
        """No descriptor, to whom it may concern."""
        return -1


@each
def test_a_fileno_of_the_guests_own_is_not_asked(name: str, job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with RemoteExecutors(fileno=ours.detach()) as sender, theirs:
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


# --- Calls that end a phase as ever, and lose the GIL only if they wait.

RECEIVES: dict[str, Callable[[socket.socket], bytes]] = {
    "recv": lambda s: s.recv(9),
    "recv_into": lambda s: (place := bytearray(9), s.recv_into(place), bytes(place))[2].rstrip(b"\0"),
}
each_way = pytest.mark.parametrize("way", RECEIVES)


@each_way
@pytest.mark.parametrize("timeout_s", [None, 5])
def test_what_came_ends_a_phase(way: str, timeout_s: float | None, job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(timeout_s)
        theirs.send(b"efgh")
        assert seen.during(RECEIVES[way], ours) == [Kind.SOCKET]
        theirs.send(b"ijkl")
        assert RECEIVES[way](ours) == b"ijkl"
        theirs.close()
        assert RECEIVES[way](ours) == b""


@each_way
def test_what_has_not_come_is_waited_for(way: str, job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(5)
        timer = threading.Timer(0.05, theirs.send, [b"abcd"])
        timer.start()
        assert RECEIVES[way](ours) == b"abcd"
        timer.join()
        ours.settimeout(0.02)
        began_s = time.monotonic()
        with pytest.raises(TimeoutError, match="timed out"):
            RECEIVES[way](ours)
        assert time.monotonic() - began_s >= 0.02
        theirs.send(b"abcd")
        assert ours.recv(4, socket.MSG_PEEK) == ours.recv(4) == b"abcd"


@each_way
def test_a_signals_handler_runs_while_it_waits(way: str, job: Permits, seen: Observer) -> None:
    def stop(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    ours, theirs = socket.socketpair()
    try:
        with ours, theirs:
            ours.settimeout(5)
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.05)
                RECEIVES[way](ours)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_reset_and_a_closed_socket_are_the_sockets_own_errors(job: Permits, seen: Observer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname(), timeout=5)
        theirs, _ = server.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        theirs.close()
        time.sleep(0.01)
        with pytest.raises(ConnectionResetError):
            ours.recv(1)
        ours.close()
        with pytest.raises(OSError, match="Bad file descriptor"):
            ours.recv(1)


def test_a_connection_over_a_numeric_address_is_what_it_is_without_a_job(job: Permits, seen: Observer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        found = [socket.getaddrinfo(*address, 0, socket.SOCK_STREAM)]
        ours = socket.socket()
        ours.settimeout(5)
        assert seen.during(ours.connect, address) == [Kind.SOCKET]
        assert ours.getpeername() == address
        ours.close()
        assert ours.fileno() == -1
        ours.close()  # Again: nothing happens.
        server.close()
        late = socket.socket()
        late.settimeout(5)
        with late, pytest.raises(ConnectionRefusedError) as refused:
            late.connect(address)
        assert refused.value.errno == errno.ECONNREFUSED
    job.close()
    assert [socket.getaddrinfo(*address, 0, socket.SOCK_STREAM)] == found


@pytest.mark.parametrize("host", ["127.1", "localhost", "", "127.0.0.01"])
def test_what_only_the_resolver_knows_is_asked_of_it(host: str, job: Permits, seen: Observer) -> None:
    def look_up() -> object:
        try:
            return socket.getaddrinfo(host, 80, 0, socket.SOCK_STREAM)
        except OSError as error:
            return error.args

    within = look_up()
    job.close()
    assert within == look_up()


def test_an_audit_hook_hears_of_both_and_may_refuse(job: Permits) -> None:
    script = """if True:
        import socket, sys, time
        from greenlane.wiring.process import start
        from greenlane.settings import Settings
        heard = []
        def hook(event, arguments):
            if event.startswith("socket."):
                heard.append((event, arguments[-1] if event == "socket.connect" else arguments))
                if arguments[-1] == ("127.0.0.1", 9):
                    raise PermissionError("no")
        sys.addaudithook(hook)
        running = start(Settings(), host="test")
        running.open({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, time.monotonic_ns())
        s = socket.socket()
        s.settimeout(1)
        try:
            s.connect(("127.0.0.1", 9))
        except PermissionError as error:
            print(error)
        socket.getaddrinfo("127.0.0.1", 80, 0, socket.SOCK_STREAM)
        print(heard[1:])
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "no",
        str([("socket.connect", ("127.0.0.1", 9)), ("socket.getaddrinfo", ("127.0.0.1", 80, 0, 1, 0))]),
    ]


def test_a_socket_that_lingers_is_closed_by_its_own_call(job: Permits, seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1))
        ours.close()
        assert ours.fileno() == -1 and theirs.recv(1) == b""


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
