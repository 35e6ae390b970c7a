"""What workers tell, and what has come since: by processes with a control socket of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.served import until
from tests.fleet.test_group import Acts

from greenlane.control import Server
from greenlane.metrics import Learned
from greenlane.settings import Settings, load
from greenlane_serve.group import Group, State
from greenlane_serve.measured import Asking, Since, Told, measuring


def told(at_ns: int, **routes: tuple[int, float, float]) -> Told:
    rows = [{"route": name, "jobs": jobs, "cpu_ms": cpu, "io_ms": io} for name, (jobs, cpu, io) in routes.items()]
    return Told(at_ns, {"record": {"routes": rows}})


def test_what_has_come_is_the_difference_to_the_last_answer() -> None:
    since = Since()
    assert since.take({1: told(1_000, bikes=(10, 5.0, 50.0))}) == {}
    came = since.take({1: told(3_000, bikes=(14, 7.0, 50.5), hogs=(1, 30.0, 0.0))})
    assert came[1].span_ns == 2_000
    assert came[1].ended == [("bikes", 4, 2_000_000, 500_000), ("hogs", 1, 30_000_000, 0)]


def test_an_answer_counts_once_and_a_new_process_begins_anew() -> None:
    since = Since()
    first = told(1_000, bikes=(10, 5.0, 50.0))
    since.take({1: first})
    assert since.take({1: first}) == {}
    assert since.take({2: told(2_000, bikes=(3, 1.0, 1.0))}) == {}
    assert since.take({2: told(3_000, bikes=(4, 1.5, 1.0))})[2].ended == [("bikes", 1, 500_000, 0)]


def test_a_worker_that_does_not_measure_tells_nothing() -> None:
    since = Since()
    since.take({1: Told(1_000, {"counters": {}})})
    assert since.take({1: Told(2_000, {"counters": {}})})[1].ended == []


class Shown:
    """A process, as far as its control socket goes."""

    def mode(self) -> str:
        return "on"

    def set_mode(self, mode: str, route: str | None = None) -> None:
        raise AssertionError(mode)

    def counters(self) -> Mapping[str, int]:
        return {"jobs": 7}

    def learned(self) -> Sequence[Learned]:
        return []


@pytest.fixture
def control_dir(tmp_path: Path) -> Iterator[Path]:
    server = Server(Shown(), tmp_path / "control")
    server.start()
    yield tmp_path / "control"
    server.stop()


@pytest.mark.slow
def test_workers_that_serve_are_asked_and_those_that_are_gone_do_no_harm(control_dir: Path, tmp_path: Path) -> None:
    group = Group("shared", 2, tmp_path, Acts(), stop_s=1.0)
    us, nobody, boots, *_ = group.slots
    us.pid, us.state = os.getpid(), State.SERVING
    nobody.pid, nobody.state = 4_194_303, State.SERVING
    boots.pid, boots.state = os.getpid(), State.BOOTING
    asking = Asking(str(control_dir), every_s=0.01)
    try:
        asking.of([group])
        until(lambda: asking.told)
        assert set(asking.told) == {os.getpid()}
        assert asking.told[os.getpid()].answer["counters"] == {"jobs": 7}
    finally:
        asking.close()


def test_workers_measure_into_a_folder_that_goes_with_us() -> None:
    environ: dict[str, str] = {"GREENLANE_RECORD_STACKS": "true"}
    with measuring(Settings(), environ):
        settings: Any = load(environ={**environ, "GREENLANE_CONFIG": ""})
        folders = [Path(settings.control_dir), Path(settings.record_folder)]
        assert all(folder.stat().st_mode & 0o077 == 0 for folder in folders)
        assert not settings.record_stacks
        with measuring(Settings(), {}):  # another service takes nothing away
            assert all(folder.exists() for folder in folders)
    assert environ == {"GREENLANE_RECORD_STACKS": "true"}
    assert not any(folder.exists() for folder in folders)


def test_what_the_settings_say_stays() -> None:
    environ: dict[str, str] = {}
    with measuring(Settings(control_dir="/run/shop", record_folder="/var/shop"), environ):
        assert environ == {}
    with measuring(Settings(at_once=4, control_dir="/run/shop"), environ):
        assert environ == {}, "nothing is set live: nothing to measure"
    with measuring(load({"control_dir": "/run/shop", "at_once": 4}, environ={"GREENLANE_CONFIG": ""}), environ):
        assert environ == {"GREENLANE_CONTROL_DIR": "/run/shop"}, "a flag of ours reaches workers so"
