"""What happens to requests when workers, the front or the parent come and go, with real programs."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.served import Clients, Served, alive, children, until

from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
workers = 2
at_once = 2
stop_s = 60
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), "held:app", SETTINGS, "--kind", "wsgi") as served:
        yield served


@pytest.mark.gate
def test_a_reload_replaces_every_worker_and_fails_no_request(served: Served) -> None:
    before = set(served.workers())
    held = served.hold("/long")  # it ends in the worker that it began in
    place = held.begun()
    with Clients(served, kept=3, new=3) as clients:
        clients.some_more()
        reloaded = served.reload()
        until(lambda: len(set(served.workers()) - before) == 2)
        assert held.let_go() == place
        reloaded()
        clients.some_more()
    assert clients.failures == []
    served.serving(2)
    assert not before & set(served.workers())
    assert set(clients.answers) <= {str(pid) for pid in before | set(served.workers())}


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.gate
def test_killed_workers_cost_no_safe_request_and_are_replaced(served: Served, number: int) -> None:
    """One of two, and all: who comes meanwhile waits for the next worker."""
    served.serving(2)
    with Clients(served, kept=3, new=3) as clients:
        clients.some_more()
        victims = served.workers()[:number]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        until(lambda: not set(victims) & set(served.workers()))
        served.serving(2)
        clients.some_more()
    assert clients.failures == []


def test_what_may_have_an_effect_is_not_sent_twice(served: Served) -> None:
    served.serving(2)
    name = "effect"
    with contextlib.closing(served.connection()) as connection:
        connection.request("POST", f"/hold?{name}", body=b"x")
        until(lambda: name in served.order())
        os.kill(int((served.folder / f"{name}.begun").read_text()), signal.SIGKILL)
        assert connection.getresponse().status == 502
    (served.folder / f"{name}.let_go").touch()
    assert served.order().count(name) == 1


def test_a_request_that_kills_its_worker_reaches_three_and_the_service_lives(served: Served) -> None:
    served.serving(2)
    with contextlib.closing(served.connection()) as connection:
        connection.request("GET", "/poison?poison")
        with contextlib.suppress(http.client.RemoteDisconnected):
            assert connection.getresponse().status == 502
    assert served.order().count("poison") == 3
    assert served.get("/x")


def test_a_killed_front_is_replaced_and_new_clients_wait(served: Served) -> None:
    before = served.front()
    os.kill(before, signal.SIGKILL)
    assert served.get("/x")
    assert served.front() != before


def test_changed_lanes_take_effect_at_a_reload_and_fail_no_new_connection(served: Served) -> None:
    file = served.folder / "greenlane.toml"
    text = file.read_text()
    before = served.front()
    assert len(served.get("/named").split()) == 3
    with Clients(served, kept=0, new=4) as clients:
        clients.some_more(10)
        file.write_text(text + '[lanes.named]\nmatch = ["/named"]\nat_once = 1\n')
        reloaded = served.reload()
        until(lambda: served.get("/named").split()[3:] == ["named"])
        clients.some_more(10)
    assert clients.failures == []
    until(lambda: before not in children(served.process.pid))
    file.write_text(text)
    reloaded()


def test_wrong_settings_are_told_at_a_reload_and_change_nothing(served: Served) -> None:
    served.serving(2)
    before = served.workers()
    file = served.folder / "greenlane.toml"
    text = file.read_text()
    try:
        file.write_text(text + "wrokers = 3\n")
        served.process.signal(signal.SIGHUP)
        served.process.wait_output("not reloaded: .*wrokers")
    finally:
        file.write_text(text)
    assert served.workers() == before


@pytest.mark.gate
def test_told_to_end_it_answers_what_it_has_and_leaves_nothing(served: Served) -> None:
    """The last of this module: it ends the service."""
    held = served.hold("/last")
    held.begun()
    left, folder = children(served.process.pid), served.run_folder()
    served.process.signal(signal.SIGTERM)
    until(lambda: not _connects(served))
    held.let_go()
    assert served.process.wait_exit(timeout_s=20) == 0
    assert not list(alive(left))
    assert not folder.exists()


@pytest.mark.parametrize("blocked", [False, True])
def test_nothing_outlives_a_parent_that_is_killed(tmp_path_factory: pytest.TempPathFactory, blocked: bool) -> None:
    """Nor does a worker whose loop a request blocks, and so cannot hear that it should end."""
    settings = "workers = 1\nstop_s = 1\n"
    with Served(tmp_path_factory.mktemp("served"), "looped:app", settings) as served:
        assert served.get("/").split()[1:] == ["127.0.0.1", "http"]
        left = children(served.process.pid)
        assert len(left) == 2
        if blocked:
            blocking(served)
        served.process.signal(signal.SIGKILL)
        until(lambda: not list(alive(left)))


def blocking(served: Served) -> None:
    """Block the loop of a worker; the client is not answered."""
    with contextlib.closing(served.connection()) as connection:
        connection.request("GET", "/stop/hold?blocking")
        until((served.folder / "blocking.begun").exists)


def _connects(served: Served) -> bool:
    try:
        with contextlib.closing(served.connection()) as connection:
            connection.connect()
    except OSError:
        return False
    return True


# --- Workers that have served enough, or hold too much, are replaced, and no request fails by it.


@pytest.mark.parametrize(("setting", "said"), [("max_requests = 50", "served"), ("max_memory_mb = 1", "holds")])
def test_a_worn_worker_is_replaced_and_no_request_fails(tmp_path: Path, setting: str, said: str) -> None:
    with Served(tmp_path, "held:app", f"workers = 2\nat_once = 2\n{setting}\n", "--kind", "wsgi") as served:
        before = set(served.workers())
        with Clients(served, kept=2, new=2) as clients:
            until(lambda: not before & set(served.workers()) or clients.failures)
        assert clients.failures == []
        served.process.wait_output(rf"worker shared/w\d \(pid \d+\) (has )?{said} \d+ .*another one takes its place")


def test_without_a_limit_nobody_is_replaced(tmp_path: Path) -> None:
    """Some rounds of looks, and more requests than the limit of the other test."""
    with Served(tmp_path, "held:app", "workers = 2\nat_once = 2\nmax_requests = 100000\n", "--kind", "wsgi") as served:
        before = set(served.workers())
        with Clients(served, kept=2, new=2) as clients:
            clients.some_more(400)
        assert (set(served.workers()), clients.failures) == (before, [])


# --- A HUP that changes groups, processes and addresses; workers that hang; a front that is deaf. With real programs.


CHANGE_SETTINGS = """
{bind}
workers = 2
at_once = 2
stop_s = 60
hung_after_s = 2
"""
LANE = '[lanes.mine]\nmatch = ["/mine*"]\nkind = "hard"\nprocesses = 1\n'


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
    served.configure(CHANGE_SETTINGS)
    served.reload()()
    until(lambda: len(served.workers()) == 2)
    assert len(served.get("/mine").split()) == 3


def test_workers_that_do_not_start_leave_those_that_serve(served: Served) -> None:
    before = set(served.workers())
    (served.folder / "broken").touch()
    served.configure(CHANGE_SETTINGS.replace("workers = 2", "workers = 3"))
    served.process.signal(signal.SIGHUP)
    served.process.wait_output("not reloaded: start the workers", timeout_s=30)
    (served.folder / "broken").unlink()
    served.configure(CHANGE_SETTINGS)
    assert set(served.workers()) >= before
    assert served.get("/x")


def test_an_address_that_is_taken_is_told_at_a_reload(served: Served) -> None:
    with socket.create_server(("127.0.0.1", child.free_port())) as taken:
        other = taken.getsockname()[1]
        served.configure(CHANGE_SETTINGS.replace("{bind}", f'bind = ["127.0.0.1:{served.port}", "127.0.0.1:{other}"]'))
        served.process.signal(signal.SIGHUP)
        served.process.wait_output(f"not reloaded: listen: bind='127.0.0.1:{other}'")
    served.configure(CHANGE_SETTINGS)
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
