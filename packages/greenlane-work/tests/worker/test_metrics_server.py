"""Where a worker's metrics can be read: nowhere, unless somebody says where, and then on this machine alone."""

from __future__ import annotations

import socket
import urllib.request

import pytest

from greenlane_work.settings import WorkSettings
from greenlane_work.worker.metrics_server import MetricsServer
from tests.child import free_port


def test_metrics_are_off_unless_somebody_says_where() -> None:
    assert WorkSettings().task_metrics == ""


def test_a_port_alone_is_open_to_this_machine_only() -> None:
    port = free_port()
    MetricsServer(str(port), lambda: "greenlane_up 1\n")
    assert urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).read() == b"greenlane_up 1\n"
    # Another address of the loopback network: who listens everywhere answers there, too.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=10)
