"""TLS: `ssl.SSLSocket`'s calls end a phase when the socket can block.

Only what reaches OpenSSL is wrapped: `read` (every `recv*` goes through it), `write`, `send`, `sendall`, `sendfile`,
`do_handshake`, `unwrap`; `connect` and `accept` consist of a plain call and a handshake, both seen. What OpenSSL has
already decrypted is handed out without blocking, and a `read` of it ends no phase: a record holds 16 KiB, a buffered
reader asks for 8. `ssl.SSLObject` (asyncio, memory BIOs) never blocks and is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane import phase
from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import when

__all__ = ["place"]

_SSL: Final = int(Kind.SSL)


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `ssl`."""
    tls = module.SSLSocket
    patches.replace(tls, "read", _read)
    patches.replace(tls, "write", _write)
    for name in ("send", "sendall"):
        patches.replace(tls, name, _send)
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


def _send(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
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
