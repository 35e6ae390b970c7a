"""`greenlane divert route` on a real service with two versions."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from tests.serve.served import APPS, Clients, Served, until

from greenlane.cli.main import main

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
workers = 2
version_workers = 1
version_header = "x-user"

[versions]
next = "{next}"

[lanes.bikes]
match = ["/bikes*"]
at_once = 4
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory) as running:
        yield running


@contextlib.contextmanager
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a second version, "next"."""
    folder, version = tmp_path_factory.mktemp("served"), tmp_path_factory.mktemp("next")
    text = (APPS / "held.py").read_text()
    (version / "held.py").write_text(text.replace("said = [os.getpid(),", 'said = ["next",'))
    with Served(folder, "held:app", SETTINGS.replace("{next}", str(version)), "--kind", "wsgi") as running:
        yield running


def divert(served: Served, *flags: str, code: int = 0) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        given = main(["divert", "route", *flags, "--bind", f"127.0.0.1:{served.port}", "--json"])
    assert given == code, err.getvalue()
    return {**(json.loads(out.getvalue()) if code == 0 else {}), "said": err.getvalue()}


def new(served: Served, path: str, number: int = 20, **headers: str) -> int:
    """How many of this many requests another version answers."""
    return sum(served.get(path, headers=headers).startswith("next") for _ in range(number))


def test_a_route_goes_to_the_other_version_and_back_at_once(served: Served) -> None:
    assert new(served, "/bikes/7") == 0
    rows = divert(served, "/bikes/*", "--to", "next", "--share", "100%")["rows"]
    assert (rows[0]["flow"], rows[0]["to"], rows[0]["share_frac"]) == ("/bikes/*", "next", 1)
    assert [(row["side"], row["workers"]) for row in rows[1:]] == [("old", 2), ("new", 1)]
    assert new(served, "/bikes/7") == 20
    assert new(served, "/cars/7") == 0
    divert(served, "/bikes/*", "--share", "0")
    assert new(served, "/bikes/7") == 0


def test_a_share_is_taken_by_the_header_and_raising_it_only_adds(served: Served) -> None:
    users = [f"user-{number}" for number in range(60)]

    def diverted() -> set[str]:
        return {user for user in users if new(served, "/bikes/7", 1, **{"X-User": user})}

    divert(served, "GET /bikes/*", "--to", "next", "--share", "20%")
    few = diverted()
    assert few == diverted()
    divert(served, "GET /bikes/*", "--share", "70%")
    many = diverted()
    assert few < many < set(users)
    assert 0 < new(served, "/bikes/7", 100) < 100  # without the header it is chance
    assert served.get("/bikes/7", method="POST", headers={"X-User": next(iter(few))})[:4] != "next"
    divert(served, "GET /bikes/*", "--share", "0")


def test_a_share_outlives_a_reload_and_the_front(served: Served) -> None:
    divert(served, "/kept", "--to", "next", "--share", "100%")
    served.reload()()
    assert new(served, "/kept", 5) == 5
    front = served.front()
    os.kill(front, signal.SIGKILL)
    assert new(served, "/kept", 5) == 5
    found = divert(served, "/kept", "--status")["rows"][0]
    assert (found["flow"], found["share_frac"], "@" in found["set_by"]) == ("/kept", 1, True)
    divert(served, "/kept", "--share", "0")


def test_of_routes_that_overlap_the_first_one_applies_and_the_command_says_so(served: Served) -> None:
    assert divert(served, "/boats/*", "--to", "next", "--share", "1%")["said"] == ""
    said = divert(served, "GET /boats/7", "--to", "next", "--share", "100%")["said"]
    assert "'GET /boats/7' has no effect: '/boats/*' was set first" in said
    assert new(served, "/boats/7") < 20
    divert(served, "/boats/*", "--share", "0")
    assert new(served, "/boats/7") == 20
    divert(served, "GET /boats/7", "--share", "0")


def test_what_cannot_be_is_named(served: Served) -> None:
    assert "a version of the service that runs" in divert(served, "/x", "--to", "none", "--share", "5%", code=1)["said"]
    assert "could mean" not in divert(served, "/x", "--to", "next", "--share", "5", code=2)["said"]
    assert "the version that the share goes to" in divert(served, "/x", "--share", "5%", code=2)["said"]
    assert "ROUTE" in divert(served, "x", "--to", "next", "--share", "5%", code=2)["said"]


def test_a_version_and_a_lane_taken_out_by_hup_end_what_they_have(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory) as served:
        # The first that matches counts: after "*" this one would be half of a chance.
        divert(served, "/bikes/*", "--to", "next", "--share", "100%")
        divert(served, "*", "--to", "next", "--share", "50%")
        with contextlib.closing(served.connection()) as held, Clients(served, kept=3, new=3) as clients:
            held.request("GET", "/bikes/hold?last")
            until(lambda: "last" in served.order())
            until(lambda: clients.answers["next"])
            served.configure("workers = 2\n")
            served.reload()()
            clients.some_more()
            (served.folder / "last.let_go").touch()
            assert held.getresponse().read().startswith(b"next")
        assert clients.failures == []
        assert new(served, "/bikes/7") == 0
        served.serving(2)


def test_a_version_comes_by_hup_and_one_that_does_not_start_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder, version = tmp_path_factory.mktemp("served"), tmp_path_factory.mktemp("next")
    without = 'workers = 1\nversion_workers = 1\nhealth_path = "/healthz"\n'
    with Served(folder, "held:app", without, "--kind", "wsgi") as served:
        assert "front that has versions" in divert(served, "/x", "--share", "0", code=1)["said"]
        (folder / "greenlane.toml").write_text(f'{without}[versions]\nnext = "{version}"\n')
        (version / "held.py").write_text("raise RuntimeError('not ready')\n")
        served.process.signal(signal.SIGHUP)
        until(lambda: "not reloaded: start the workers" in served.process.output)
        assert served.get("/x").split()[0].isdecimal()
        text = (APPS / "held.py").read_text().replace("said = [os.getpid(),", 'said = ["next",')
        (version / "held.py").write_text(text)
        served.reload()()
        divert(served, "*", "--to", "next", "--share", "100%")
        assert new(served, "/x", 5) == 5
        assert served.get("/healthz") == "ok\n"
        (pid,) = [pid for pid in served.workers() if os.readlink(f"/proc/{pid}/cwd") == str(version)]
        (version / "held.py").write_text("raise RuntimeError('broken')\n")
        os.kill(pid, signal.SIGKILL)
        until(lambda: "was killed by signal 9" in served.process.output)
        assert new(served, "/x", 5) == 0  # its share went back to the application
        (folder / "greenlane.toml").write_text(without)
        served.reload()()
        assert new(served, "/x", 5) == 0
        (version / "held.py").write_text(text)
        (folder / "greenlane.toml").write_text(f'{without}[versions]\nnext = "{version}"\n')
        served.reload()()
        assert new(served, "/x", 5) == 0  # nobody has said so of this one
        assert divert(served, "*", "--status")["rows"][0]["to"] is None
