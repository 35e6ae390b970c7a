"""Cables that are cut, swallow bytes, and lose answers, before a real listener."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from greenlane_tools.lab.relay import Cable, Relay, Relays

#: Long enough for any machine where something must arrive; short where nothing may.
ARRIVES_S, NOTHING_S = 10.0, 0.2


class Echo:
    """Answers what it gets, and remembers it."""

    def __init__(self) -> None:
        self.got = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=self._socket.accept()[:1], daemon=True).start()

    def _answer(self, caller: socket.socket) -> None:
        with caller, contextlib.suppress(OSError):
            while said := caller.recv(100):
                self.got += said
                caller.sendall(said)


@pytest.fixture
def echo() -> Iterator[Echo]:
    with contextlib.closing(Echo()) as running:
        yield running


@pytest.fixture
def relay(echo: Echo) -> Iterator[Relay]:
    with Relays() as relays:
        yield relays.to(echo.port)


@pytest.fixture
def caller(relay: Relay) -> Iterator[socket.socket]:
    with _called(relay) as connected:
        yield connected


def _called(relay: Relay) -> socket.socket:
    connected = socket.create_connection(("127.0.0.1", relay.port), timeout=ARRIVES_S)
    return connected


def _asked(caller: socket.socket, said: bytes) -> bytes:
    caller.sendall(said)
    return caller.recv(100)


def _silent(caller: socket.socket) -> bool:
    caller.settimeout(NOTHING_S)
    try:
        caller.recv(100)
        return False
    except TimeoutError:
        return True
    finally:
        caller.settimeout(ARRIVES_S)


def test_a_cable_that_is_well_and_one_that_is_slow_carry_everything(relay: Relay, caller: socket.socket) -> None:
    assert _asked(caller, b"one") == b"one"
    relay.set(Cable.SLOW)
    assert _asked(caller, b"two") == b"two"


def test_a_cut_resets_what_is_open_and_what_comes(relay: Relay, caller: socket.socket) -> None:
    assert _asked(caller, b"one") == b"one"
    relay.set(Cable.CUT)
    with pytest.raises(ConnectionResetError):
        caller.recv(100)
    with pytest.raises(ConnectionResetError), _called(relay) as another:
        another.recv(100)
    relay.set(Cable.WELL)
    with _called(relay) as another:
        assert _asked(another, b"two") == b"two"


@pytest.mark.slow
def test_a_hole_swallows_both_ways_and_forgets_its_connections(relay: Relay, caller: socket.socket, echo: Echo) -> None:
    assert _asked(caller, b"one") == b"one"
    relay.set(Cable.HOLE)
    caller.sendall(b"lost")
    assert _silent(caller)
    assert echo.got == b"one"
    with _called(relay) as another:
        assert _silent(another)
        relay.set(Cable.WELL)
        for connected in (caller, another):
            with pytest.raises(ConnectionResetError):
                connected.recv(100)
    assert echo.got == b"one"


@pytest.mark.slow
def test_half_a_cable_carries_questions_and_loses_answers(relay: Relay, caller: socket.socket, echo: Echo) -> None:
    assert _asked(caller, b"one") == b"one"
    relay.set(Cable.HALF)
    caller.sendall(b"heard")
    assert _silent(caller)
    assert echo.got == b"oneheard"
    relay.set(Cable.WELL)
    with pytest.raises(ConnectionResetError):
        caller.recv(100)
