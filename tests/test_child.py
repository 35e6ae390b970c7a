"""The process under test is awaited without sleeping, and never outlives its test."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys

import pytest

from tests.child import Child, free_port

LISTEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""
FORK_AND_TELL = """
import os, signal
child = os.fork()
if child:
    print("grandchild", child, flush=True)
signal.pause()
"""


def test_free_ports_are_below_the_ephemeral_range_and_differ() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) == 20
    assert max(ports) < 32768


@pytest.mark.slow
def test_a_server_is_ready_when_its_port_accepts_and_is_gone_after_the_block() -> None:
    port = free_port()
    with Child([sys.executable, "-c", LISTEN, str(port)]) as server:
        server.wait_port(port)
        assert server.wait_output("^listening$")
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


@pytest.mark.slow
@pytest.mark.gate
def test_what_a_server_forked_ends_with_it() -> None:
    with Child([sys.executable, "-c", FORK_AND_TELL]) as server:
        grandchild = int(server.wait_output(r"grandchild (\d+)")[1])
        ended = os.pidfd_open(grandchild)
        try:
            assert server.end() == -signal.SIGTERM
            assert select.select([ended], [], [], 5)[0], "the forked process still runs"
        finally:
            os.close(ended)


@pytest.mark.slow
def test_a_server_that_ends_early_is_told_with_its_output() -> None:
    with (
        Child([sys.executable, "-c", "print('no such setting'); raise SystemExit(3)"]) as server,
        pytest.raises(AssertionError, match="no such setting"),
    ):
        server.wait_output("never printed")
