"""Each socket call that can block is one phase end; none that cannot."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.probes.observer import Observer

from greenlane.phase import Kind

Pair = tuple[socket.socket, socket.socket]

CALLS: dict[str, Callable[[socket.socket], object]] = {
    "recv": lambda s: s.recv(4),
    "recv flags": lambda s: s.recv(4, socket.MSG_PEEK),
    "recvfrom": lambda s: s.recvfrom(4),
    "recv_into": lambda s: s.recv_into(bytearray(4)),
    "recv_into keywords": lambda s: s.recv_into(bytearray(4), nbytes=2, flags=0),
    "recvfrom_into": lambda s: s.recvfrom_into(bytearray(4), 2),
    "recvmsg": lambda s: s.recvmsg(4),
    "recvmsg ancillary": lambda s: s.recvmsg(4, 16, socket.MSG_PEEK),
    "recvmsg_into": lambda s: s.recvmsg_into([bytearray(4)]),
    "send": lambda s: s.send(b"abcd"),
    "sendall": lambda s: s.sendall(b"abcd"),
    "sendmsg": lambda s: s.sendmsg([b"ab", b"cd"]),
    "makefile": lambda s: s.makefile("rb").read(4),
}


@pytest.fixture
def pair(seen: Observer) -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    theirs.send(b"abcdefgh")
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("name", CALLS)
def test_a_call_on_a_blocking_socket_ends_one_phase(name: str, pair: Pair, seen: Observer) -> None:
    assert seen.during(CALLS[name], pair[0]) == [Kind.SOCKET]


@pytest.mark.parametrize("name", CALLS)
def test_a_socket_with_a_timeout_can_block(name: str, pair: Pair, seen: Observer) -> None:
    pair[0].settimeout(5)
    assert seen.during(CALLS[name], pair[0]) == [Kind.SOCKET]


@pytest.mark.parametrize("name", CALLS)
def test_a_non_blocking_socket_ends_none(name: str, pair: Pair, seen: Observer) -> None:
    pair[0].settimeout(0)
    assert seen.during(CALLS[name], pair[0]) == []


@pytest.mark.parametrize("name", ["recv", "recv_into", "recvmsg"])
def test_dontwait_ends_none(name: str, pair: Pair, seen: Observer) -> None:
    arguments = {"recv": (4,), "recv_into": (bytearray(4), 0), "recvmsg": (4, 0)}[name]
    assert seen.during(getattr(pair[0], name), *arguments, socket.MSG_DONTWAIT) == []


def test_sendfile_ends_a_phase_for_each_piece(pair: Pair, seen: Observer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    with open(tmp_path / "file", "rb") as file:
        assert {*seen.during(pair[0].sendfile, file)} == {Kind.SOCKET}
    assert len(pair[1].recv(2000)) == 1000


def test_connect_and_accept(seen: Observer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.socket() as client:
            assert seen.during(client.connect, address) == [Kind.SOCKET]
            assert seen.during(lambda: server.accept()[0].close()) == [Kind.SOCKET]
        with socket.socket() as client:
            assert seen.during(client.connect_ex, address) == [Kind.SOCKET]
        with socket.socket() as client:
            client.setblocking(False)
            assert seen.during(client.connect_ex, address) == []
        made: list[socket.socket] = []
        assert seen.during(lambda: made.append(socket.create_connection(address))) == [Kind.DNS, Kind.SOCKET]
        made[0].close()


def test_datagrams(seen: Observer) -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as ours, socket.socket(type=socket.SOCK_DGRAM) as theirs:
        theirs.bind(("127.0.0.1", 0))
        address = theirs.getsockname()
        assert seen.during(ours.sendto, b"a", address) == [Kind.SOCKET]
        assert seen.during(ours.sendto, b"b", 0, address) == [Kind.SOCKET]
        assert seen.during(ours.sendmsg, [b"c"], [], 0, address) == [Kind.SOCKET]
        assert [theirs.recvfrom(9)[0] for _ in range(3)] == [b"a", b"b", b"c"]


def test_a_timeout_is_the_sockets_own_and_balanced(seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.001)
        with pytest.raises(TimeoutError, match="timed out"):
            seen.during(ours.recv, 1)
    assert seen.ends == [Kind.SOCKET]


def test_an_error_passes_unchanged(seen: Observer) -> None:
    closed = socket.socket()
    closed.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        seen.during(closed.recv, 1)
    with pytest.raises(TypeError):
        seen.during(closed.recv)
    with pytest.raises(TypeError):
        seen.during(closed.recv, 1, 2, 3)
    with pytest.raises(TypeError):
        seen.during(closed.recv, "one")


def test_a_subclass_and_its_super_call_are_seen_once(seen: Observer) -> None:
    class Loud(socket.socket):
        def recv(self, *args: Any) -> bytes:
            return super().recv(*args).upper()

    ours, theirs = socket.socketpair()
    with theirs, Loud(fileno=ours.detach()) as loud:
        theirs.send(b"abc")
        assert seen.during(loud.recv, 3) == [Kind.SOCKET]


def test_another_thread_without_a_job_is_not_this_threads_business(pair: Pair, seen: Observer) -> None:
    import threading

    before = len(seen.ends)
    thread = threading.Thread(target=pair[0].recv, args=(4,))
    thread.start()
    thread.join()
    assert Kind.SOCKET not in seen.ends[before:]
