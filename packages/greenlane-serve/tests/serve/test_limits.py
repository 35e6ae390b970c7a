"""Limits set by what workers told: the number, its reason, and what the settings leave open."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from tests.serve.test_group import Acts

from greenlane.errors import ServeError
from greenlane_serve.at_once import Limits, word_of
from greenlane_serve.group import Group
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.lanes import SHARED, layout_of
from greenlane_serve.measured import GroupWork
from greenlane_serve.places import Places
from greenlane_serve.settings import AtOnceRule, ServeSettings

_MS = 1_000_000


class Service:
    """A tree whose front is told nothing: numbers go to its places."""

    def __init__(self, settings: ServeSettings, folder: Path) -> None:
        self.settings = settings
        self.layout = layout_of(settings)
        self.places = Places(settings, self.layout.groups, threads=True)
        self.folder = folder
        self.groups = {SHARED: Group(SHARED, 2, folder, Acts(), stop_s=1.0)}
        self.told: list[int] = []

    def set_at_once(self, group: Group, number: int, why: str) -> None:
        self.told.append(number)
        with contextlib.suppress(ServeError):  # nobody is there, and the number holds
            self.places.change(group, number, why, self.layout, Runtime(self.folder / "nobody"))


def worked(jobs: int, cpu_ms: float, io_ms: float) -> GroupWork:
    """Two workers, a second each, of which they compute all."""
    cpu_ns = round(jobs * cpu_ms * _MS)
    return GroupWork((cpu_ns, cpu_ns, 0), jobs, round(jobs * io_ms * _MS), 0, 0, [("GET /", jobs, cpu_ns)])


def looked(settings: ServeSettings, folder: Path, *looks: GroupWork) -> Service:
    service, limits = Service(settings, folder), Limits(threads=True)
    for one in looks:
        limits.look(service, {SHARED: one})  # type: ignore[arg-type]  # it needs no more of it
    return service


def test_what_computes_comes_one_by_one_and_says_why(tmp_path: Path) -> None:
    service = looked(ServeSettings(), tmp_path, *[worked(40, 40.0, 0.0)] * 6)
    chosen = service.places.sets[SHARED]
    assert (service.told, chosen.at_once) == ([32, 16, 8, 4, 2, 1], 1)
    assert chosen.why == "model: 40 ms CPU and 0 ms I/O a request; this many keep a worker busy"
    assert word_of(chosen.why) == "model"


def test_a_number_that_stays_gets_the_latest_reason_and_the_front_is_left_alone(tmp_path: Path) -> None:
    service = looked(ServeSettings(threads=1), tmp_path, worked(40, 40.0, 0.0), worked(40, 50.0, 0.0))
    assert service.told == []
    assert service.places.sets[SHARED].why.startswith("most: 4")


def test_what_only_waits_gets_room(tmp_path: Path) -> None:
    service = Service(ServeSettings(), tmp_path)
    limits = Limits(threads=True)
    for _ in range(7):
        limits.look(service, {SHARED: worked(40, 40.0, 0.0)})  # type: ignore[arg-type]
    group = service.groups[SHARED]
    for in_progress in (2, 2, 4):
        limits.make_room(service, group, (100, 1, 1), 2, in_progress)  # type: ignore[arg-type]
    assert service.told[-3:] == [1, 2, 4]
    assert word_of(service.places.sets[SHARED].why) == "room"


@pytest.mark.parametrize(
    ("settings", "number", "word"),
    [
        (ServeSettings(threads=5), 5, "most"),
        (ServeSettings(limit=4), 4, "most"),
    ],
)
def test_settings_bound_it(settings: ServeSettings, number: int, word: str, tmp_path: Path) -> None:
    chosen = looked(settings, tmp_path, *[worked(2000, 1.0, 500.0)] * 6).places.sets[SHARED]
    assert (chosen.at_once, word_of(chosen.why)) == (number, word)


def test_threads_bound_a_wsgi_worker_only() -> None:
    settings = ServeSettings(threads=5)
    assert [AtOnceRule.of(settings, threads=threads).most for threads in (True, False)] == [5, 1000]


def test_a_number_of_the_settings_is_left_alone(tmp_path: Path) -> None:
    chosen = looked(ServeSettings(at_once=6), tmp_path, worked(40, 40.0, 0.0)).places.sets[SHARED]
    assert (chosen.at_once, word_of(chosen.why)) == (6, "setting")
