"""What an observer on the wire writes down: when each call of an upstream went past a relay.

    watched = Watched()
    with Relays() as relays:
        relays.to(upstream_port, watched)    # callers connect to its port
    watched.passed                           # [Passed(call_id, asked_ns, replied_ns, own_ms), …] by reply

What a proxy's access log would say (Envoy's, a sidecar's): from the request's first byte until the reply's last one,
on the monotonic clock, without anything of the caller's process in it. It knows HTTP/1.1 without pipelining, with
content-length. The process that has the relay must have nothing else to do meanwhile.
"""

from __future__ import annotations

import re
import time
from typing import Final, NamedTuple

__all__ = ["Passed", "Watched"]

_CALL_ID: Final = re.compile(rb"^GET [^ ?]*\?(?:[^ ]*&)?id=([^& ]*)")
_CLOCK: Final = re.compile(rb"\r\nx-upstream-ms: *([0-9.]+)\r\n", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


class Passed(NamedTuple):
    """One call as it went past; ns of the monotonic clock."""

    call_id: str
    asked_ns: int
    replied_ns: int
    #: By the upstream's own clock, as its reply says; 0 = it does not. To the microsecond: it tells calls apart.
    own_ms: float

    @property
    def wire_ns(self) -> int:
        """How long the upstream took, for an observer between it and its caller."""
        return self.replied_ns - self.asked_ns


class Watched:
    """Sees what a relay passes; `passed` grows by a call with each whole reply."""

    def __init__(self) -> None:
        self.passed: list[Passed] = []
        # Connection -> id and instant of its request; what has come of the reply.
        self._asked: dict[int, tuple[str, int]] = {}
        self._got: dict[int, bytes] = {}

    def __call__(self, connection: int, is_answer: bool, chunk: bytes) -> None:
        """As `greenlane_tools.lab.relay.Seen`."""
        now_ns = time.monotonic_ns()
        if not is_answer:
            named = _CALL_ID.match(chunk)
            self._asked[connection] = named[1].decode() if named else "", now_ns
            self._got[connection] = b""
            return
        got = self._got[connection] = self._got[connection] + chunk
        if _whole(got):
            told = _CLOCK.search(got)
            self.passed.append(Passed(*self._asked[connection], now_ns, float(told[1]) if told else 0.0))


def _whole(got: bytes) -> bool:
    head, ended, body = got.partition(b"\r\n\r\n")
    if not ended:
        return False
    length = _LENGTH.search(head + b"\r\n")
    return len(body) >= (int(length[1]) if length else 0)
