"""Four processes wait for connections: all are answered, whichever process is chosen. No order is expected."""

from __future__ import annotations

import pytest

from greenlane_tools.lab.accept.kernel import MECHANISMS, split


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_connection_is_answered_and_only_reuse_port_has_a_listener_each(mechanism: str):
    found = split(mechanism, 4, 40)
    assert sum(found.counts) == 40
    assert found.listeners == (4 if mechanism == "reuse-port" else 1)
