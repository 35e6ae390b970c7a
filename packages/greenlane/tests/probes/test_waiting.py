"""Look-ups, readiness, sleep: one phase end each, none for a timeout of 0."""

from __future__ import annotations

import select
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable

import pytest
from tests.probes.observer import Observer

from greenlane.phase import Kind

LOOKUPS: dict[str, Callable[[], object]] = {
    "getaddrinfo": lambda: socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM),
    "gethostbyname": lambda: socket.gethostbyname("127.0.0.1"),
    "gethostbyname_ex": lambda: socket.gethostbyname_ex("127.0.0.1"),
    "gethostbyaddr": lambda: socket.gethostbyaddr("127.0.0.1"),
    "getnameinfo": lambda: socket.getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_look_up_is_one_phase_end(name: str, seen: Observer) -> None:
    assert seen.during(LOOKUPS[name]) == [Kind.DNS]


def test_a_failed_look_up_is_balanced(seen: Observer) -> None:
    with pytest.raises(socket.gaierror):
        seen.during(socket.getaddrinfo, "", "no-such-service")
    assert seen.ends == [Kind.DNS]


def test_sleep_is_one_phase_end_and_so_is_a_yield(seen: Observer) -> None:
    assert seen.during(time.sleep, 0.001) == [Kind.SLEEP]
    assert seen.during(time.sleep, 0) == [Kind.SLEEP]
    with pytest.raises(ValueError, match="non-negative"):
        seen.during(time.sleep, -1)
    with pytest.raises(TypeError):
        seen.during(time.sleep)


def test_select(seen: Observer) -> None:
    assert seen.during(select.select, [], [], [], 0.001) == [Kind.SELECT]
    assert seen.during(select.select, [], [], [], 0) == []
    with pytest.raises(TypeError):
        seen.during(select.select, [], [])


@pytest.mark.parametrize("kind", [select.poll, select.epoll])
def test_what_polls_in_c_ends_a_phase(kind: object, seen: Observer) -> None:
    name = "poll" if kind is select.poll else "epoll"
    poller = getattr(select, name)()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        poller.register(ours.fileno(), select.POLLIN)
        assert seen.during(poller.poll, 0.001) == [Kind.SELECT]
        assert seen.during(poller.poll, 0) == []
        theirs.send(b"x")
        assert seen.during(poller.poll) == [Kind.SELECT]
        assert seen.during(poller.poll, -1) == [Kind.SELECT]
        assert seen.during(poller.poll, None) == [Kind.SELECT]
        assert poller.poll(0) == [(ours.fileno(), select.POLLIN)]
        poller.modify(ours.fileno(), select.POLLOUT)
        poller.unregister(ours.fileno())
        with pytest.raises((KeyError, FileNotFoundError)):
            poller.unregister(ours.fileno())


@pytest.mark.parametrize("kind", [selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector])
def test_a_selector_is_one_phase_end(kind: type[selectors.BaseSelector], seen: Observer) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, kind() as selector:
        selector.register(ours, selectors.EVENT_READ)
        assert seen.during(selector.select, 0.001) == [Kind.SELECT]
        assert seen.during(selector.select, 0) == []
        assert seen.during(selector.select, timeout=-1) == []
        theirs.send(b"x")
        assert seen.during(selector.select) == [Kind.SELECT]


def test_waiting_for_a_signal_is_a_phase_end(seen: Observer) -> None:
    me = threading.get_ident()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        for wait in (signal.sigwait, signal.sigwaitinfo, lambda signals: signal.sigtimedwait(signals, 5)):
            seen.meanwhile = lambda: signal.pthread_kill(me, signal.SIGUSR1)
            assert seen.during(wait, [signal.SIGUSR1]) == [Kind.PROCESS]
        assert seen.during(signal.sigtimedwait, [signal.SIGUSR1], 0) == []
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
