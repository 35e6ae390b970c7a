"""A HUP that changes groups, processes and addresses; workers that hang; a front that is deaf. With real programs."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator

import pytest
from tests.serve.served import Clients, Served, until

from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
{bind}
workers = 2
at_once = 2
stop_s = 60
hung_after_s = 2
"""
LANE = '[lanes.mine]\nmatch = ["/mine*"]\nkind = "hard"\nprocesses = 1\n'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), "held:app", SETTINGS, "--kind", "wsgi") as served:
        yield served


def test_a_reload_may_change_groups_processes_and_addresses(served: Served) -> None:
    before, other = set(served.workers()), child.free_port()
    held = served.hold("/long")
    place = held.begun()
    with Clients(served, kept=2, new=2) as clients:
        clients.some_more(10)
        two = f'"127.0.0.1:{served.port}", "127.0.0.1:{other}"'
        served.configure(f"bind = [{two}]\nworkers = 4\nat_once = 2\nstop_s = 60\nhung_after_s = 2\n{LANE}")
        served.reload()()
        clients.some_more(10)
        assert held.let_go() == place  # it ended where it had begun
    assert clients.failures == []
    until(lambda: not before & set(served.workers()))
    assert len(served.workers()) == 4
    assert len(served.get("/mine").split()) == 4
    first, served.port = served.port, other
    assert served.get("/mine").split()[3] == "mine"
    served.port = first


def test_a_reload_takes_an_address_and_a_group_away(served: Served) -> None:
    served.configure(SETTINGS)
    served.reload()()
    until(lambda: len(served.workers()) == 2)
    assert len(served.get("/mine").split()) == 3


def test_workers_that_do_not_start_leave_those_that_serve(served: Served) -> None:
    before = set(served.workers())
    (served.folder / "broken").touch()
    served.configure(SETTINGS.replace("workers = 2", "workers = 3"))
    served.process.signal(signal.SIGHUP)
    served.process.wait_output("not reloaded: start the workers", timeout_s=30)
    (served.folder / "broken").unlink()
    served.configure(SETTINGS)
    assert set(served.workers()) >= before
    assert served.get("/x")


def test_an_address_that_is_taken_is_told_at_a_reload(served: Served) -> None:
    with socket.create_server(("127.0.0.1", child.free_port())) as taken:
        other = taken.getsockname()[1]
        served.configure(SETTINGS.replace("{bind}", f'bind = ["127.0.0.1:{served.port}", "127.0.0.1:{other}"]'))
        served.process.signal(signal.SIGHUP)
        served.process.wait_output(f"not reloaded: listen: bind='127.0.0.1:{other}'")
    served.configure(SETTINGS)
    assert served.get("/x")


@pytest.mark.soak
def test_a_front_that_is_deaf_is_replaced(served: Served) -> None:
    before = served.front()
    (served.run_folder() / "runtime").unlink()
    served.reload()()
    until(lambda: served.front() != before)
    assert "runtime socket" in served.process.output
    assert served.get("/x")


@pytest.mark.soak
def test_a_worker_that_hangs_says_where_and_is_replaced(served: Served) -> None:
    served.serving(2)
    with contextlib.closing(served.connection()) as connection:
        connection.request("POST", "/hang?hang", body=b"x")
        until(lambda: "hang" in served.order())
        hung = int((served.folder / "hang.begun").read_text())
        assert served.get("/x")  # by the other one
        until(lambda: hung not in served.workers())
        assert connection.getresponse().status == 502
    served.serving(2)
    assert "hangs: it has not turned" in served.process.output
    assert "in app" in served.process.output
