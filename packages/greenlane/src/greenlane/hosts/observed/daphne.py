"""daphne observed: each HTTP request is a job, from the arrival of its bytes to the end of its response.

Requests that wait on one connection arrive when their own bytes did: daphne reads them while it answers another one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Steps
from greenlane.hosts.observed.asgi_app import observed
from greenlane.probes.patching import Patches

__all__ = ["place"]

#: Attribute of Twisted's channel, which is one connection.
_READS: Final = "_greenlane_reads"

_recorder: Final = Recorder()


class _Reads:
    """When the bytes of a connection came."""

    __slots__ = ("_came", "_read", "head")

    def __init__(self) -> None:
        #: (how many bytes had been read with it, arrival) of each read that is not used up.
        self._came: deque[tuple[int, tuple[int, str]]] = deque()
        self._read = 0
        #: When the bytes came that ended the last head.
        self.head: tuple[int, str] | None = None

    def add(self, length: int, arrival: tuple[int, str]) -> None:
        self._read += length
        self._came.append((self._read, arrival))

    def end_head(self, left: int) -> None:
        """A head has ended; `left` bytes behind it have been read as well."""
        end = self._read - left
        while len(self._came) > 1 and self._came[0][0] < end:
            self._came.popleft()
        self.head = self._came[0][1]


def place(patches: Patches, module: ModuleType) -> None:
    """Place the observers in `daphne.server`."""
    # What the transport calls: the channel's own method is called again with what had to wait.
    patches.replace(module.http._GenericHTTPChannelProtocol, "dataReceived", _data_received)
    patches.replace(module.http.HTTPChannel, "allHeadersReceived", _head_received)
    patches.replace(module.Server, "create_application", _create_application)


def _data_received(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def dataReceived(self: Any, data: bytes) -> Any:
        if not silent and _recorder.recording():
            channel = self._channel
            if not getattr(channel, "requests", True) and not channel._buffer:
                channel.__dict__[_READS] = _Reads()  # a request begins, and none waits
            reads = getattr(channel, _READS, None)
            if reads is not None:
                reads.add(len(data), _recorder.arrival(_descriptor(channel)))
        return original(self, data)

    return dataReceived


def _head_received(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def allHeadersReceived(self: Any) -> Any:
        reads = getattr(self, _READS, None)
        if reads is not None and not silent:
            reads.end_head(len(self._buffer) + sum(map(len, self._dataBuffer)))
        return original(self)

    return allHeadersReceived


def _create_application(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def create_application(self: Any, protocol: Any, scope: Any) -> Any:
        if silent or not _recorder.recording() or scope["type"] != "http":
            return original(self, protocol, scope)
        return original(_Observed(self, _arrival(protocol.channel)), protocol, scope)

    return create_application


def _descriptor(channel: Any) -> int:
    try:
        return int(channel.transport.getHandle().fileno())
    except Exception:  # a transport of another kind
        return -1


def _arrival(channel: Any) -> tuple[int, str]:
    reads = getattr(channel, _READS, None)
    if reads is None or reads.head is None:  # a stream of HTTP/2, which is handed over as it is read
        return Steps.arrival()
    head: tuple[int, str] = reads.head
    return head


class _Observed:
    """The server while it starts one application: with that under observation."""

    def __init__(self, server: Any, arrival: tuple[int, str]) -> None:
        self.__dict__["_server"] = server
        self.__dict__["_arrival"] = arrival

    def application(self, scope: Any, receive: Any, send: Any) -> Any:
        return observed(self._server.application, "daphne", self._arrival, scope, receive, send)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._server, name, value)
