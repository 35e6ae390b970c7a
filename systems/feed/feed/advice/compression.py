"""Compressed or not, over links of different speeds: compress, send, decompress, by the clock."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import orjson
import zstandard

from feed.children import Process, command
from greenlane_tools.lab.processes import free_port

from .payload import Payload
from .row import Row, costs, rows

# Mbit/s, and what they are called; 0 = loopback as it is.
LINKS: Final[Mapping[str, float]] = {"100 Mbit/s": 100, "1 Gbit/s": 1_000, "loopback": 0}
LEVELS: Final = (1, 3, 9)

# Before and after the link.
Codec = tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]


def codecs() -> dict[str, Codec]:
    """By name; the first one does nothing."""

    def zstd(level: int) -> Codec:
        return zstandard.ZstdCompressor(level).compress, zstandard.ZstdDecompressor().decompress

    return {"as it is": (bytes, bytes), **{f"zstd {level}": zstd(level) for level in LEVELS}}


def compression(payload: Payload, repetitions: int) -> list[Row]:
    """What `split` sends: the items' JSON; and the same items as fixed records."""
    bodies = {"JSON": orjson.dumps(payload.items), "fixed records": b"".join(payload.packed)}
    found: list[Row] = []
    for link, mbit_per_s in LINKS.items():
        for form, body in bodies.items():
            stage = f"{len(payload.items):,} items as {form} over {link}"
            found += over(stage, body, mbit_per_s, max(2, repetitions // (1 if mbit_per_s != 100 else 2)))
    return found


def over(stage: str, body: bytes, mbit_per_s: float, repetitions: int) -> list[Row]:
    """One body over one link, with each codec."""
    found = codecs()
    with sender(body, found) as port, linked(port, mbit_per_s) as near:

        def sending(name: str) -> Callable[[], bytes]:
            return lambda: found[name][1](received(near, name))

        taken = costs({name: sending(name) for name in found}, repetitions)
    sizes = {name: len(encode(body)) for name, (encode, _) in found.items()}
    return rows("compression", stage, taken, clock="wall_ms", sizes=sizes)


@contextmanager
def linked(target: int, mbit_per_s: float) -> Iterator[int]:
    """A port behind which the target is, over a link of this speed."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="feed-link-") as folder:
        flags = {"port": port, "target": target, "mbit-per-s": mbit_per_s}
        arguments = [str(part) for name, value in flags.items() for part in (f"--{name}", value)]
        process = Process([*command("feed.advice.link"), *arguments], Path(folder) / "log")
        try:
            process.wait_for_port(port)
            yield port
        finally:
            process.end()


@contextmanager
def sender(body: bytes, known: Mapping[str, Codec]) -> Iterator[int]:
    """A port that answers a codec's name and a newline with the body in that form, encoded at each question."""
    with socket.create_server(("127.0.0.1", free_port())) as listener:
        thread = threading.Thread(target=_sending, args=(listener, body, known))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            # Wakes accept, which close alone does not.
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _sending(listener: socket.socket, body: bytes, known: Mapping[str, Codec]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as asked:
            name = asked.readline().decode().strip()
            if name in known:
                connection.sendall(known[name][0](body))


def received(port: int, name: str) -> bytes:
    """What comes for this codec's name."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{name}\n".encode())
        connection.shutdown(socket.SHUT_WR)
        chunks = []
        while chunk := connection.recv(1 << 18):
            chunks.append(chunk)
    return b"".join(chunks)
