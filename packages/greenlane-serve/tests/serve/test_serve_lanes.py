"""Who waits for whom under `greenlane serve`, with the real HAProxy and real workers. No test of these needs a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.served import Served, ask

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
workers = 5
at_once = 1
health_path = "/healthz"

[lanes.light]
match = ["/light*"]
processes = 1
priority = 10

[lanes.late]
match = ["/late*"]
priority = -10

[lanes.mine]
match = ["GET /mine*"]
headers = { x-who = "me*" }
kind = "hard"
processes = 1
"""


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), "held:app", SETTINGS, "--kind", "wsgi") as served:
        yield served


@pytest.fixture
def served(serve: Served) -> Iterator[Served]:
    yield serve
    serve.finish()


def test_light_requests_do_not_wait_for_hogs_on_new_and_on_kept_connections(served: Served) -> None:
    """Four workers, two hogs: every light request is answered while both hogs run, whichever worker got it."""
    with contextlib.ExitStack() as stack:
        kept = [stack.enter_context(contextlib.closing(served.connection())) for _ in range(8)]
        before = {ask(connection, "/light").split()[0] for connection in kept}
        hogs = [served.hold("/hog") for _ in range(2)]
        taken = {hog.begun() for hog in hogs}
        assert len(taken) == 2
        answers = [ask(connection, "/light").split()[0] for connection in kept for _ in range(3)]
        answers += [served.get("/light").split()[0] for _ in range(24)]
        assert len(answers) == 48
        assert not taken & {int(pid) for pid in {*answers}}
        assert before <= {str(pid) for pid in served.workers()}
        served.finish()


def test_a_reserve_is_kept_from_any_number_of_hogs(served: Served) -> None:
    hogs = [served.hold("/hog") for _ in range(8)]
    served.waiting("gate", 5)
    assert sum(hog.runs for hog in hogs) == 3
    assert len({served.get("/light").split()[0] for _ in range(5)}) == 1
    served.finish()


@pytest.mark.parametrize("first_free", ["its own", "a shared one"])
def test_a_queued_request_takes_whichever_worker_is_free_first(served: Served, first_free: str) -> None:
    """Which worker it gets is decided when one is free, not when it comes: what is queued spills."""
    hogs = [served.hold("/hog") for _ in range(4)]
    served.waiting("gate", 1)
    running = [hog for hog in hogs if hog.runs]
    light = served.hold("/light")
    own = light.begun()
    queued = served.hold("/light")
    served.waiting("shared", 1)
    freed = light if first_free == "its own" else running[0]
    place = freed.let_go()
    assert queued.begun() == place
    assert (place == own) is (first_free == "its own")
    served.finish()


def test_who_waits_is_served_by_priority(served: Served) -> None:
    lights = [served.hold("/light") for _ in range(4)]
    for light in lights:
        light.begun()
    late = served.hold("/late")
    served.waiting("gate-late", 0)
    served.waiting("shared", 1)
    rest = served.hold("/rest")
    served.waiting("shared", 2)
    light = served.hold("/light")
    served.waiting("shared", 3)
    for one in (lights[0], light, rest, late):
        one.let_go()
    assert served.order()[-3:] == [light.name, rest.name, late.name]


def test_a_hard_lane_has_its_workers_to_itself(served: Served) -> None:
    me = {"X-Who": "me too"}
    pid = served.get("/mine", headers=me).split()[0]
    others = [served.hold("/light") for _ in range(4)]
    assert pid not in {str(one.begun()) for one in others}
    assert served.get("/mine/2", headers=me).split()[0] == pid
    served.finish()
    assert served.get("/mine", headers=me).split()[3] == "mine"
    assert len(served.get("/mine").split()) == 3
    assert len(served.get("/mine", method="POST", headers=me).split()) == 3


def test_a_client_that_has_gone_is_not_served_from_the_queue(served: Served) -> None:
    lights = [served.hold("/light") for _ in range(4)]
    for light in lights:
        light.begun()
    with contextlib.closing(served.connection()) as connection:
        connection.request("GET", "/light/hold?gone")
        served.waiting("shared", 1)
    served.waiting("shared", 0)
    served.finish()
    assert "gone" not in served.order()


def test_the_client_and_its_lane_cannot_be_forged(served: Served) -> None:
    forged = {"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https", "X-Greenlane-Lane": "mine"}
    assert served.get("/", headers=forged).split()[1:] == ["127.0.0.1", "http"]
    assert served.get("/light", headers=forged).split()[1:] == ["127.0.0.1", "http", "light"]


@pytest.mark.gate
def test_the_health_path_is_answered_while_every_worker_is_busy(served: Served) -> None:
    lights = [served.hold("/light") for _ in range(4)]
    for light in lights:
        light.begun()
    assert served.get("/healthz") == "ok\n"
    served.finish()


def test_a_worker_socket_can_be_reached_by_its_owner_only(served: Served) -> None:
    folder: Path = served.run_folder()
    assert folder.stat().st_mode & 0o077 == 0
