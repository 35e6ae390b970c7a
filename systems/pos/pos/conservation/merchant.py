"""Ten merchants in one process, each at a port of its own, that write down every call and behave as they are told.

    python -m pos.conservation.merchant '{"m0": {"port": 20001, "kind": "asked"}, …}'

    POST /orders            {"order": …}   takes an order in; header Idempotency-Key
    GET  /orders/<order>    {"done": …}    tells whether it has; 405 from a `plain` merchant
    GET  /effects                          its book: {"calls": …, "orders": {order: [fields of `books.Entry`]}}
    GET  /count                            {"calls": …, "settled": …}: how many orders were taken in, or said to be
    POST /law               {…}            how it behaves from now on, see `Law`

Kinds: `keyed` honours the Idempotency-Key: a call that comes again is answered and has no second effect; `asked` has no
such key and can be asked; `plain` has neither: nobody can tell whether an order whose answer was lost was taken in.

An order is taken in at some moment between request and answer, which a hash of order and call decides, and only if the
caller is still there: one who dies before has had no effect, one who dies after has had it and does not know.
It speaks HTTP/1.1 with keep-alive as far as its callers need it: Content-Length, no pipelining.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import socket
import struct
import sys
import time
from dataclasses import dataclass
from typing import Any, Final

#: What a call may meet, beside `well`.
ANSWERS: Final = (
    "well",
    "error",  # 500, nothing done
    "hang",  # done, never answers
    "reset",  # connection reset, nothing done
    "reset_done",  # done, then the connection is reset
    "done_but_error",  # done, says 500
    "ok_but_nothing",  # says 200, nothing done
    "twice",  # done, the answer is sent two times
)
_WITHOUT_EFFECT: Final = frozenset({"error", "reset", "ok_but_nothing"})
_RESET: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Law:
    """How a merchant behaves.

    Args:
        latency_ms: from the request's end to the answer.
        answer: what the share `frac` of its calls meets, one of ANSWERS; the others meet `well`.
        frac: 0..1. Which calls is decided by order and number of the call, so that a run can be repeated and an order
            that is sent again may meet something else.
    """

    latency_ms: float = 50.0
    answer: str = "well"
    frac: float = 1.0

    def of(self, order: str, call: int) -> str:
        """What this call meets."""
        return self.answer if share(f"{order} {call}") < self.frac else "well"


class Book:
    """What one merchant has seen; per order the fields of `books.Entry`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.law = Law()
        self.calls = 0
        self.settled = 0
        self.orders: dict[str, list[Any]] = {}
        # Idempotency keys of what was taken in.
        self._keys: set[str] = set()

    def call(self, order: str) -> tuple[str, float]:
        """An order comes in. Gives what the answer shall be, and when it is taken in, as a share of the latency."""
        entry = self.orders.setdefault(order, [0, 0, 0, False, 0.0])
        number = entry[1]
        entry[1] += 1
        self.calls += 1
        return self.law.of(order, number), share(f"when {order} {number}")

    def take(self, order: str, answer: str, key: str) -> None:
        """The moment at which it is taken in, when the answer is one that comes with an effect."""
        entry = self.orders[order]
        before = bool(entry[0] or entry[3])
        entry[2] += entry[0] > 0
        if answer not in _WITHOUT_EFFECT and not (self.kind == "keyed" and key in self._keys):
            entry[0] += 1
            self._keys.add(key)
            entry[4] = entry[4] or time.time()
        if answer == "ok_but_nothing":
            entry[3] = True
        self.settled += not before and bool(entry[0] or entry[3])

    def done(self, order: str) -> bool:
        """Whether this order had its effect."""
        return order in self.orders and self.orders[order][0] > 0


class Connection(asyncio.Protocol):
    """One caller."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The caller is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        """A part of a request, or all of it."""
        self._got += data
        head, end, rest = self._got.partition(b"\r\n\r\n")
        if not end:
            return
        length, key = 0, ""
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            elif name.lower() == b"idempotency-key":
                key = value.strip().decode()
        if len(rest) >= length:
            self._got = rest[length:]
            method, path, _ = head.split(b" ", 2)
            self._request(method.decode(), path.decode(), rest[:length], key)

    def _request(self, method: str, path: str, body: bytes, key: str) -> None:
        book = self._book
        match method, path.split("/")[1:]:
            case "POST", ["orders"]:
                self._order(str(json.loads(body)["order"]), key)
            case "GET", ["orders", _] if book.kind == "plain":
                self._say(405, {})
            case "GET", ["orders", order]:
                self._say(200, {"done": book.done(order)})
            case "GET", ["effects"]:
                self._say(200, {"kind": book.kind, "calls": book.calls, "orders": book.orders})
            case "GET", ["count"]:
                self._say(200, {"calls": book.calls, "settled": book.settled})
            case "POST", ["law"]:
                book.law = Law(**json.loads(body))
                self._say(200, {})
            case _:
                self._say(404, {})

    def _order(self, order: str, key: str) -> None:
        answer, when = self._book.call(order)
        latency_s = self._book.law.latency_ms / 1e3
        taken = (order, answer, key, (1 - when) * latency_s)
        asyncio.get_running_loop().call_later(when * latency_s, self._take, *taken)

    def _take(self, order: str, answer: str, key: str, answer_after_s: float) -> None:
        if self._transport.is_closing():
            return
        self._book.take(order, answer, key)
        if answer != "hang":
            asyncio.get_running_loop().call_later(answer_after_s, self._answer, order, answer)

    def _answer(self, order: str, answer: str) -> None:
        if self._transport.is_closing():
            return
        if answer.startswith("reset"):
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
            return
        status = 500 if "error" in answer else 200
        for _ in range(2 if answer == "twice" else 1):
            self._say(status, {"order": order})

    def _say(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)


def share(text: str) -> float:
    """0..1, as good as random and the same in each run."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) / 2**64


async def _serve(merchants: dict[str, dict[str, Any]]) -> None:
    loop = asyncio.get_running_loop()
    for merchant in merchants.values():
        book = Book(merchant["kind"])
        answering = functools.partial(Connection, book)
        await loop.create_server(answering, "127.0.0.1", merchant["port"], backlog=4096)
    await loop.create_future()


if __name__ == "__main__":
    asyncio.run(_serve(json.loads(sys.argv[1])))
