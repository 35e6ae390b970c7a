"""TLS calls are phase ends where OpenSSL can wait, over a real loopback connection."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.probes.observer import Observer

from greenlane.phase import Kind

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program (apt: openssl)")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    return key, certificate


Line = tuple[ssl.SSLSocket, threading.Thread]


@pytest.fixture
def line(seen: Observer, certificate: tuple[Path, Path]) -> Iterator[Line]:
    """A client socket whose handshake has yet to be done, and an echo server that has yet to be started."""
    key, chain = certificate
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(chain, key)
    client_side = ssl.create_default_context(cafile=str(chain))
    near, far = socket.socketpair()
    echo = threading.Thread(target=_echo, args=(server_side, far))
    with client_side.wrap_socket(near, server_hostname="localhost", do_handshake_on_connect=False) as wrapped:
        yield wrapped, echo
    echo.join()


@pytest.fixture
def client(line: Line, seen: Observer) -> ssl.SSLSocket:
    """The client socket with the server running."""
    line[1].start()
    seen.ends.clear()
    return line[0]


def _echo(context: ssl.SSLContext, far: socket.socket) -> None:
    # Some tests hang up in the middle.
    with far, contextlib.suppress(OSError), context.wrap_socket(far, server_side=True) as echoing:
        while received := echoing.recv(1 << 16):
            echoing.sendall(received)
        echoing.unwrap()


def test_each_blocking_call_is_one_phase_end(client: ssl.SSLSocket, seen: Observer) -> None:
    assert seen.during(client.do_handshake) == [Kind.SSL]
    assert seen.during(client.sendall, b"x" * 40_000) == [Kind.SSL]
    received = bytearray()
    while len(received) < 40_000:
        waits = not client.pending()
        assert seen.during(lambda: received.extend(client.recv(8192))) == ([Kind.SSL] if waits else [])
    assert seen.during(client.send, b"abcd") == [Kind.SSL]
    assert seen.during(client.recv_into, bytearray(2)) == [Kind.SSL]
    assert seen.during(client.recv, 2) == [], "it was decrypted already"
    assert seen.during(client.write, b"abcd") == [Kind.SSL]
    assert seen.during(client.read, 4) == [Kind.SSL]
    assert seen.during(client.send, data=b"ab", flags=0) == [Kind.SSL]
    assert seen.during(client.read, len=2) == [Kind.SSL]
    client.shutdown(socket.SHUT_WR)


def test_an_orderly_end_is_one_phase_end(client: ssl.SSLSocket, seen: Observer) -> None:
    client.do_handshake()
    assert seen.during(client.unwrap) == [Kind.SSL]


def test_a_timeout_is_balanced(client: ssl.SSLSocket, seen: Observer) -> None:
    client.do_handshake()
    client.settimeout(0.001)
    with pytest.raises(TimeoutError):
        seen.during(client.recv, 1)
    assert seen.ends[-1] is Kind.SSL
    client.settimeout(5)
    client.shutdown(socket.SHUT_WR)


def test_a_non_blocking_socket_ends_none_but_a_forced_handshake_does(line: Line, seen: Observer) -> None:
    client, echo = line
    client.settimeout(0)
    with pytest.raises((ssl.SSLWantReadError, ssl.SSLWantWriteError)):
        seen.during(client.do_handshake)
    assert seen.ends == []
    echo.start()
    seen.ends.clear()
    assert seen.during(client.do_handshake, block=True) == [Kind.SSL]
    with pytest.raises(ssl.SSLWantReadError):
        while True:  # session tickets come first
            seen.during(client.recv, 1)
    assert seen.ends == [Kind.SSL]
    client.setblocking(True)
    client.shutdown(socket.SHUT_WR)


def test_connecting_is_a_plain_wait_and_a_handshake(seen: Observer, certificate: tuple[Path, Path]) -> None:
    key, chain = certificate
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(chain, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: _echo(server_side, listener.accept()[0]))
        thread.start()
        client_side = ssl.create_default_context(cafile=str(chain))
        with client_side.wrap_socket(socket.socket(), server_hostname="localhost") as client:
            assert seen.during(client.connect, listener.getsockname()) == [Kind.SOCKET, Kind.SSL]
            client.shutdown(socket.SHUT_WR)
        thread.join()


def test_memory_bios_never_block(seen: Observer) -> None:
    side = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        seen.during(side.do_handshake)
    assert seen.ends == []
