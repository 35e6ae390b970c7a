"""The current gunicorn, really run: listeners, what one wake-up takes, what a limit counts. Counts, never times."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from greenlane_tools.lab.accept.contenders import SERVERS, Contender, Environment, limited
from greenlane_tools.lab.accept.measuring import Accepting, Amounts, NotServing, accepting, limit, served
from greenlane_tools.lab.doctor.subject import this_kernel

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

HERE = Environment(Path(sys.executable), {"gunicorn": metadata.version("gunicorn")})
LITTLE = Amounts(share_per_s=60, share_s=0.5, bursts=4, burst_gap_s=0.25, kept_requests=20)


def measured(contender: Contender) -> Accepting:
    with served(contender, HERE, 4) as service:
        return accepting(contender, HERE.versions["gunicorn"], service, LITTLE)


def test_four_workers_share_one_listener_and_take_one_connection_at_a_time():
    row = measured(Contender(SERVERS["gunicorn"], "tcp"))
    assert (row.boots, row.listeners, row.accepted_at_once, row.errors) == (True, 1, 1, 0)
    assert sum(row.share_split) == row.requests > 0
    assert [sum(split) for split in row.burst_split] == [20] * 4
    assert sum(row.kept_split) == row.kept_requests == 20


def test_with_reuse_port_each_has_its_own():
    row = measured(Contender(SERVERS["gunicorn"], "tcp", ("--reuse-port",)))
    assert (row.boots, row.listeners, row.errors) == (True, 4, 0)


def test_with_gevents_own_max_accept_one_wake_up_takes_a_crowd():
    row = measured(Contender(SERVERS["gunicorn"], "unix", (), {"ANSWERING_MAX_ACCEPT": "100"}))
    assert row.listeners == 1
    assert row.accepted_at_once is not None and row.accepted_at_once > 1


@pytest.mark.skipif(not this_kernel().unix_reuse_port, reason="this kernel takes SO_REUSEPORT on Unix sockets")
def test_reuse_port_on_a_unix_socket_does_not_start():
    with (
        pytest.raises(NotServing, match="Operation not supported"),
        served(Contender(SERVERS["gunicorn"], "unix", ("--reuse-port",)), HERE, 1),
    ):
        pass


def test_idle_connections_hold_the_slots_of_a_gevent_worker():
    contender = limited("gunicorn", 3, 1)
    with served(contender, HERE, 1) as service:
        row = limit(contender, HERE.versions["gunicorn"], service, 3, 1)
    # Three at once; the fourth gets a slot no sooner than the first idle connection is given up, after a second.
    assert row.lost == 0 and len(row.answered_s) == 12
    assert row.answered_s[3] >= 1 and row.answered_s[6] >= 2 and row.answered_s[9] >= 3
