"""Open-loop Poisson load over HTTP/1.1, in a process of its own, timed from the scheduled send.

    python -m greenlane.demo.load < plan.json > samples.csv

Open loop: the next request is sent when its time has come, whether or not earlier ones were answered; a slow server
gets a queue, not a slower client. A latency runs from the *scheduled* send to the last byte of the answer, so a
generator that comes late counts against nobody but is seen (`sent_ns`). Plain non-blocking sockets over epoll: about
0.1 ms of CPU a request, since the generator shares the machine with what it measures.
"""

from __future__ import annotations

import gc
import math
import select
import socket
import sys
import time
from collections import deque
from typing import Final

from greenlane.demo.plan import Arrival, Plan, Stream, read_plan, schedule
from greenlane.demo.samples import FAILED, UNANSWERED, Sample, write_samples

_READ_BYTES: Final = 1 << 16
# How often the generator looks for requests past their time-out while nothing else happens.
_LOOK_S: Final = 0.05


def run(plan: Plan) -> list[Sample]:
    """Sends the whole plan and waits for every answer, at most `timeout_s` past the last send.

    Blocks for `seconds` and the drain; one thread; collects no garbage meanwhile (a bounded run, no pauses).
    """
    arrivals = schedule(plan)
    gc.collect()
    gc.disable()
    try:
        return _Generator(plan).run(arrivals)
    finally:
        gc.enable()


class _Exchange:
    """One request on its way."""

    __slots__ = ("address", "answer", "body_ends", "connection", "fresh", "head_ends", "outgoing", "over", "sample")

    def __init__(self, sample: Sample, address: str, outgoing: bytes) -> None:
        self.sample = sample
        self.address = address
        self.outgoing = outgoing
        self.answer = bytearray()
        self.connection: socket.socket | None = None
        # This connection has not carried a request before: its failure is the server's word, not a stale socket.
        self.fresh = True
        self.over = False
        self.head_ends = -1
        # Length of the whole answer; -1 = until end of file, -2 = chunked.
        self.body_ends = -1


class _Generator:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._poll = select.epoll()
        self._under_way: dict[int, _Exchange] = {}
        self._idle: dict[str, list[socket.socket]] = {}
        self._waiting: deque[_Exchange] = deque()
        self._began_ns = 0
        self._samples: list[Sample] = []

    def run(self, arrivals: list[Arrival]) -> list[Sample]:
        heads = [self._head(stream) for stream in self._plan.streams]
        self._began_ns = time.monotonic_ns()
        position = 0
        while position < len(arrivals) or self._under_way:
            now_s = (time.monotonic_ns() - self._began_ns) / 1e9
            while position < len(arrivals) and arrivals[position].at_s <= now_s:
                arrival = arrivals[position]
                self._send(arrival, self._plan.streams[arrival.stream], heads[arrival.stream])
                position += 1
            next_s = arrivals[position].at_s if position < len(arrivals) else math.inf
            self._give_up(now_s)
            self._wait(min(next_s - now_s, _LOOK_S))
        for connection in [one for idle in self._idle.values() for one in idle]:
            connection.close()
        self._poll.close()
        return self._samples

    def _head(self, stream: Stream) -> str:
        kept = "keep-alive" if self._plan.connections == "keep-alive" else "close"
        return f"HTTP/1.1\r\nHost: {stream.address}\r\nConnection: {kept}\r\n\r\n"

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._began_ns

    def _send(self, arrival: Arrival, stream: Stream, head: str) -> None:
        sample = Sample(stream.endpoint, int(arrival.at_s * 1e9), 0, 0, UNANSWERED)
        query = f"?ms={arrival.work_ms}" if arrival.work_ms else ""
        exchange = _Exchange(sample, stream.address, f"GET {stream.path}{query} {head}".encode())
        self._samples.append(sample)
        self._waiting.append(exchange)
        idle = self._idle.get(stream.address)
        if idle:
            exchange.fresh = False
            self._take(exchange, idle.pop())
        else:
            self._connect(exchange)

    def _connect(self, exchange: _Exchange) -> None:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, _, port = exchange.address.partition(":")
        exchange.connection = connection
        self._under_way[connection.fileno()] = exchange
        connection.connect_ex((host, int(port)))
        self._poll.register(connection.fileno(), select.EPOLLOUT)

    def _take(self, exchange: _Exchange, connection: socket.socket) -> None:
        exchange.connection = connection
        self._under_way[connection.fileno()] = exchange
        self._poll.modify(connection.fileno(), select.EPOLLOUT)

    def _wait(self, seconds: float) -> None:
        # select on epoll's own descriptor has microseconds where epoll has milliseconds: sends leave on time.
        if seconds > 0:
            select.select([self._poll.fileno()], [], [], seconds)
        for descriptor, events in self._poll.poll(0):
            exchange = self._under_way.get(descriptor)
            if exchange is None:
                self._drop_idle(descriptor)
            elif events & select.EPOLLOUT and not events & (select.EPOLLERR | select.EPOLLHUP):
                self._write(exchange)
            else:
                self._read(exchange)

    def _write(self, exchange: _Exchange) -> None:
        assert exchange.connection is not None
        try:
            exchange.connection.send(exchange.outgoing)  # a few hundred bytes: the kernel takes all or fails
        except OSError:
            self._failed(exchange)
            return
        exchange.sample.sent_ns = self._now_ns()
        self._poll.modify(exchange.connection.fileno(), select.EPOLLIN)

    def _read(self, exchange: _Exchange) -> None:
        assert exchange.connection is not None
        try:
            data = exchange.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._failed(exchange)
            return
        if data:
            exchange.answer += data
            if self._complete(exchange):
                self._done(exchange)
        elif exchange.head_ends >= 0 and exchange.body_ends == -1:
            self._done(exchange)
        else:
            self._failed(exchange)

    def _complete(self, exchange: _Exchange) -> bool:
        if exchange.head_ends < 0:
            exchange.head_ends = exchange.answer.find(b"\r\n\r\n")
            if exchange.head_ends < 0:
                return False
            exchange.body_ends = _body_ends(bytes(exchange.answer[: exchange.head_ends]))
        if exchange.body_ends == -2:
            return exchange.answer.endswith(b"0\r\n\r\n")
        return exchange.body_ends >= 0 and len(exchange.answer) >= exchange.body_ends

    def _done(self, exchange: _Exchange) -> None:
        self._end(exchange, _status(exchange.answer))
        connection = exchange.connection
        assert connection is not None
        closing = b"connection: close" in exchange.answer[: exchange.head_ends].lower()
        if self._plan.connections == "keep-alive" and not closing and exchange.body_ends != -1:
            del self._under_way[connection.fileno()]
            self._idle.setdefault(exchange.address, []).append(connection)
        else:
            self._close(exchange)

    def _failed(self, exchange: _Exchange) -> None:
        self._close(exchange)
        if not exchange.fresh and not exchange.answer:  # the server closed an idle connection meanwhile: its right
            exchange.fresh = True
            self._connect(exchange)
            return
        self._end(exchange, FAILED)

    def _close(self, exchange: _Exchange) -> None:
        connection = exchange.connection
        if connection is not None:
            self._under_way.pop(connection.fileno(), None)
            self._poll.unregister(connection.fileno())
            connection.close()
            exchange.connection = None

    def _drop_idle(self, descriptor: int) -> None:
        for idle in self._idle.values():
            for connection in idle:
                if connection.fileno() == descriptor:
                    idle.remove(connection)
                    self._poll.unregister(descriptor)
                    connection.close()
                    return

    def _give_up(self, now_s: float) -> None:
        while self._waiting:
            exchange = self._waiting[0]
            if not exchange.over:
                if now_s - exchange.sample.scheduled_ns / 1e9 < self._plan.timeout_s:
                    return
                self._end(exchange, UNANSWERED)
                self._close(exchange)
            self._waiting.popleft()

    def _end(self, exchange: _Exchange, status: int) -> None:
        exchange.over = True
        exchange.sample.done_ns = self._now_ns()
        exchange.sample.status = status


def _status(answer: bytearray) -> int:
    try:
        return int(answer[9:12]) if answer.startswith(b"HTTP/1.") else FAILED
    except ValueError:
        return FAILED


def _body_ends(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name == b"content-length":
            return len(head) + 4 + int(value)
        if name == b"transfer-encoding" and b"chunked" in value.lower():
            return -2
    return -1


def main() -> int:
    """Reads a plan from stdin, runs it, writes its samples to stdout."""
    write_samples(run(read_plan(sys.stdin.read())), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
