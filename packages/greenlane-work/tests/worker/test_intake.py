"""Frames as py-amqp reads them, by fewer system calls: none is lost, none comes twice, wherever the stream is cut."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import amqp
import pytest
from amqp.transport import TCPTransport
from kombu.asynchronous.hub import Hub

from greenlane_work.worker.receiving import read_ahead, read_many, written_together

HEARTBEAT = 8
FRAMES = [(1, 1, b"method"), (2, 1, b"header" * 9), (3, 1, b"body" * 1000), (HEARTBEAT, 0, b""), (1, 2, b"x")]
STREAM = b"".join(struct.pack(">BHI", kind, channel, len(load)) + load + b"\xce" for kind, channel, load in FRAMES)


class Counting(socket.socket):
    received = 0
    sent = 0

    def sendall(self, *arguments: Any) -> None:
        self.sent += 1
        super().sendall(*arguments)

    def recv(self, *arguments: Any) -> bytes:
        self.received += 1
        return super().recv(*arguments)


class Line:
    """A connection of py-amqp, past its greeting, and the broker's end of it."""

    def __init__(self) -> None:
        self.broker, ours = socket.socketpair()
        self.socket = Counting(fileno=ours.detach())
        transport = TCPTransport("127.0.0.1:1")
        transport.sock, transport.connected = self.socket, True
        transport._setup_transport()
        self.frames: list[tuple[int, int, bytes]] = []
        self.connection = amqp.Connection()
        self.connection._transport = transport
        self.connection.on_inbound_frame = self._take

    def _take(self, frame: tuple[int, int, bytes]) -> bool:
        self.frames.append(frame)
        return True

    def reader(self) -> Callable[[], object]:
        hub = Hub()
        read_many(self.connection, hub)
        call, arguments = hub.readers[self.socket.fileno()]
        return lambda: call(*arguments)


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    line.broker.close()
    line.socket.close()


def test_many_frames_are_received_at_once(line: Line) -> None:
    line.broker.sendall(STREAM)
    line.reader()()
    assert line.frames == FRAMES
    assert line.socket.received == 1


def test_a_frame_may_be_cut_anywhere(line: Line) -> None:
    read = line.reader()
    for cut in range(len(STREAM)):
        line.broker.sendall(STREAM[:cut])
        read()
        whole = len(line.frames)
        assert line.frames == FRAMES[:whole]
        line.broker.sendall(STREAM[cut:])
        read()
        assert line.frames == FRAMES
        line.frames.clear()


def test_nothing_there_is_no_error(line: Line) -> None:
    line.reader()()
    assert line.frames == []


def test_the_end_of_the_connection_is_an_error_as_it_ever_was(line: Line) -> None:
    read = line.reader()
    line.broker.sendall(STREAM[:20])
    read()
    line.broker.close()
    with pytest.raises(OSError):
        read()
    assert not line.connection.transport.connected


def test_who_reads_ahead_asks_the_socket_once_for_many(line: Line) -> None:
    read_ahead(line.connection)
    line.broker.sendall(STREAM)
    for _ in FRAMES:
        line.connection.drain_events(timeout=1)
    assert line.frames == FRAMES
    assert line.socket.received == 1


def test_what_a_turn_says_is_one_write(line: Line) -> None:
    transport = line.connection._transport
    buffer = bytearray(3)
    with written_together(line.connection):
        for number in range(50):
            buffer[:] = b"%03d" % number  # as py-amqp does: one buffer for all frames
            transport.write(memoryview(buffer))
        assert line.socket.sent == 0
    assert line.socket.sent == 1
    assert line.broker.recv(1000) == b"".join(b"%03d" % number for number in range(50))
    transport.write(b"alone")
    assert line.socket.sent == 2


def test_whoever_reads_in_a_turn_has_asked_first(line: Line) -> None:
    transport = line.connection._transport
    with written_together(line.connection):
        transport.write(b"question")
        line.broker.sendall(b"answer")
        assert transport._read(6) == b"answer"
        assert line.broker.recv(100) == b"question"
        transport.write(b"more")
    assert line.broker.recv(100) == b"more"


def test_a_connection_that_is_lost_in_a_turn_stops_nobody(line: Line) -> None:
    line.broker.close()
    with written_together(line.connection):
        line.connection._transport.write(b"gone")
        line.connection._transport.write(b"gone")
    with written_together(None), written_together(amqp.Connection()):
        pass
