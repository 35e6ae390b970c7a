"""Sockets, TLS and DNS: a call ends a phase when it can block.

Plain sockets: `socket.socket` is a Python class over `_socket.socket`, so its C methods can be shadowed on the class:
subclasses, `super()`, `makefile()` and everything built on them (http.client, urllib3, redis-py, pymongo, PyMySQL) come
through here. Left to the permits' stand-still fallback: direct users of `_socket.socket`, and C libraries with sockets
of their own.

Where permits are on, what a job sends over TCP, UDP or a Unix socket (up to 16 kB of bytes that fit into its buffer) is
sent with the GIL kept, and ends no phase: nobody waits. With the GIL let go, every thread that wants it would have its
turn first, for a call of some microseconds; an HTTP client's request lets go of it three times (send, wait, receive).

A non-blocking socket (timeout 0) and `MSG_DONTWAIT` never end a phase. `getblocking()` is the cheapest way to ask: one
C call, no float (25 ns; `gettimeout() == 0` 40 ns). Whether data is already there is not asked: that would be a system
call.

DNS: a look-up of a numeric address or of /etc/hosts does not wait for the network, but takes the resolver's locks and
files; telling them apart would cost what it saves. A host name given to `connect` directly is resolved inside that call
and belongs to it. `socket.getfqdn` and `socket.create_connection` come through here.

TLS: only what reaches OpenSSL is wrapped: `read` (every `recv*` goes through it), `write`, `send`, `sendall`,
`sendfile`, `do_handshake`, `unwrap`; `connect` and `accept` consist of a plain call and a handshake, both seen. What
OpenSSL has already decrypted is handed out without blocking, and a `read` of it ends no phase: a record holds 16 KiB, a
buffered reader asks for 8. `ssl.SSLObject` (asyncio, memory BIOs) never blocks and is left alone.

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
from greenlane.probes.wrapping import Make, always, when

__all__ = ["place", "place_ssl"]

_SOCKET: Final = int(Kind.SOCKET)
_SSL: Final = int(Kind.SSL)
_DONTWAIT: Final = int(socket.MSG_DONTWAIT)
_AND: Final = int.__and__
_LOOKUPS: Final = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo")


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `socket`."""
    for name in _LOOKUPS:
        patches.replace(module, name, always(Kind.DNS))
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


# --- TLS --------------------------------------------------------------------------------------------------------------


def place_ssl(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `ssl`."""
    tls = module.SSLSocket
    patches.replace(tls, "read", _read)
    patches.replace(tls, "write", _write)
    for name in ("send", "sendall"):
        patches.replace(tls, name, _send_tls)
    patches.replace(tls, "do_handshake", when(Kind.SSL, _handshake_blocks))
    for name in ("unwrap", "sendfile"):
        patches.replace(tls, name, when(Kind.SSL, _blocks))


def _read(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def read(self: Any, len: int = 1024, buffer: Any = None) -> Any:
        if silent or not self.getblocking() or self.pending():
            return original(self, len, buffer)
        try:
            phase.leave(_SSL)
            return original(self, len, buffer)
        finally:
            phase.enter()

    return read


def _write(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def write(self: Any, data: Any) -> Any:
        if silent or not self.getblocking():
            return original(self, data)
        try:
            phase.leave(_SSL)
            return original(self, data)
        finally:
            phase.enter()

    return write


def _send_tls(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def send(self: Any, data: Any, flags: int = 0) -> Any:
        if silent or not self.getblocking():
            return original(self, data, flags)
        try:
            phase.leave(_SSL)
            return original(self, data, flags)
        finally:
            phase.enter()

    return send


def _blocks(self: Any, *_args: Any, **_kwargs: Any) -> bool:
    return bool(self.getblocking())


def _handshake_blocks(self: Any, block: bool = False) -> bool:
    # `block` makes CPython lift a timeout of 0 for the length of the handshake.
    return block or bool(self.getblocking())
