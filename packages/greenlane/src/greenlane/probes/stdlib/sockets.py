"""Sockets: `socket.socket`'s calls end a phase when the socket can block.

`socket.socket` is a Python class over `_socket.socket`, so its C methods can be shadowed on the class: subclasses,
`super()`, `makefile()` and everything built on them (http.client, urllib3, redis-py, pymongo, PyMySQL) come through
here. Left to the permits' stand-still fallback: direct users of `_socket.socket`, and C libraries with sockets of
their own.

Where permits are on, what a job sends over TCP, UDP or a Unix socket (up to 16 kB of bytes that fit into its buffer) is
sent with the GIL kept, and ends no phase: nobody waits. With the GIL let go, every thread that wants it would have its
turn first, for a call of some microseconds; an HTTP client's request lets go of it three times (send, wait, receive).

A non-blocking socket (timeout 0) and `MSG_DONTWAIT` never end a phase. `getblocking()` is the cheapest way to ask: one
C call, no float (25 ns; `gettimeout() == 0` 40 ns). Whether data is already there is not asked: that would be a system
call. TLS has a file of its own (`tls.py`); its socket class defines its own methods and uses these for the plain ones.

Cost: 0.07-0.1 us a call, 0.15-0.2 with flags (see `wrapping`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane import phase
from greenlane._native import send_at_once
from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import Make

__all__ = ["place"]

_SOCKET: Final = int(Kind.SOCKET)
_DONTWAIT: Final = int(socket.MSG_DONTWAIT)
_AND: Final = int.__and__


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `socket`."""
    for make, names in _SHAPES.items():
        for name in names:
            patches.replace(module.socket, name, make)


def _plain(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def call(self: socket.socket) -> Any:
        if silent or not self.getblocking():
            return original(self)
        try:
            phase.leave(_SOCKET)
            return original(self)
        finally:
            phase.enter()

    return call


def _addressed(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def call(self: socket.socket, address: Any, /) -> Any:
        if silent or not self.getblocking():
            return original(self, address)
        try:
            phase.leave(_SOCKET)
            return original(self, address)
        finally:
            phase.enter()

    return call


def _flagged(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def call(self: socket.socket, what: Any, flags: int = 0, /) -> Any:
        if silent or (flags and _dontwait(flags)) or not self.getblocking():
            return original(self, what, flags)
        try:
            phase.leave(_SOCKET)
            return original(self, what, flags)
        finally:
            phase.enter()

    return call


def _send(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def call(self: socket.socket, data: Any, flags: int = 0, /) -> Any:
        if silent or (flags and _dontwait(flags)) or not self.getblocking():
            return original(self, data, flags)
        if type(data) is bytes and not flags and (sent := send_at_once(self, data)):
            return sent
        try:
            phase.leave(_SOCKET)
            return original(self, data, flags)
        finally:
            phase.enter()

    return call


def _sendall(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def call(self: socket.socket, data: Any, flags: int = 0, /) -> Any:
        if silent or (flags and _dontwait(flags)) or not self.getblocking():
            return original(self, data, flags)
        if type(data) is bytes and not flags and (sent := send_at_once(self, data)):
            if sent == len(data):
                return None
            data = data[sent:]
        try:
            phase.leave(_SOCKET)
            return original(self, data, flags)
        finally:
            phase.enter()

    return call


def _into(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def call(self: socket.socket, buffer: Any, nbytes: int = 0, flags: int = 0) -> Any:
        if silent or (flags and _dontwait(flags)) or not self.getblocking():
            return original(self, buffer, nbytes, flags)
        try:
            phase.leave(_SOCKET)
            return original(self, buffer, nbytes, flags)
        finally:
            phase.enter()

    return call


def _message(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def call(self: socket.socket, what: Any, ancillary: int = 0, flags: int = 0, /) -> Any:
        if silent or (flags and _dontwait(flags)) or not self.getblocking():
            return original(self, what, ancillary, flags)
        try:
            phase.leave(_SOCKET)
            return original(self, what, ancillary, flags)
        finally:
            phase.enter()

    return call


def _any(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def call(self: socket.socket, what: Any, *args: Any, **kwargs: Any) -> Any:
        if silent or not self.getblocking():
            return original(self, what, *args, **kwargs)
        try:
            phase.leave(_SOCKET)
            return original(self, what, *args, **kwargs)
        finally:
            phase.enter()

    return call


def _dontwait(flags: int) -> bool:
    # Not `flags & ...`: socket's own flags are an IntFlag, whose operators are Python and take 700 ns.
    try:
        return bool(_AND(flags, _DONTWAIT))
    except TypeError:
        return False  # The original says what is wrong, or takes its __index__.


_SHAPES: Final[dict[Make, tuple[str, ...]]] = {
    _plain: ("accept",),
    _addressed: ("connect", "connect_ex"),
    _flagged: ("recv", "recvfrom"),
    _send: ("send",),
    _sendall: ("sendall",),
    _into: ("recv_into", "recvfrom_into"),
    _message: ("recvmsg", "recvmsg_into"),
    # Several overloads or many parameters, none of them on a hot path.
    _any: ("sendto", "sendmsg", "sendfile"),
}
