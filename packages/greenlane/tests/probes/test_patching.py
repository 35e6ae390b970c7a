"""What is replaced is given back, to the very object, and nobody else's patch is touched."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from tests.probes.observer import Observer

from greenlane import probes
from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import always


def test_the_supported_pythons_have_every_name_that_is_asked_for(seen: Observer) -> None:
    import multiprocessing.connection
    import multiprocessing.synchronize

    assert multiprocessing.connection and multiprocessing.synchronize
    assert probes.absent() == ()


def test_a_class_body_may_hold_a_function_that_was_written_in_c(seen: Observer) -> None:
    class Waiter:
        sleep = time.sleep
        select = select.select

    waiter = Waiter()
    assert seen.during(waiter.sleep, 0) == [Kind.SLEEP]
    assert seen.during(waiter.select, [], [], [], 0.001) == [Kind.SELECT]


@pytest.fixture
def target() -> Iterator[type]:
    class Target:
        def work(self) -> str:
            return "done"

    yield Target


def _on(target: type) -> Patches:
    return Patches({"sys": lambda patches, _module: patches.replace(target, "work", always(Kind.DRIVER))})


def _patched_by_somebody(target: Any) -> Any:
    inner = target.work

    def theirs(self: object) -> Any:
        return inner(self)

    target.work = theirs
    return theirs


@pytest.fixture
def heard(seen: Observer) -> Observer:
    return seen


def test_who_patches_later_stays_and_our_part_falls_silent(target: Any, heard: Observer) -> None:
    patches = _on(target)
    patches.install()
    theirs = _patched_by_somebody(target)
    assert heard.during(target().work) == [Kind.DRIVER]
    patches.uninstall()
    assert target.work is theirs
    assert heard.during(target().work) == []
    assert target().work() == "done"


def test_installing_again_under_a_later_patch_wakes_the_first_probe(target: Any, heard: Observer) -> None:
    patches = _on(target)
    patches.install()
    theirs = _patched_by_somebody(target)
    patches.uninstall()
    patches.install()
    assert target.work is theirs, "wrapped a second time"
    assert heard.during(target().work) == [Kind.DRIVER]
    patches.uninstall()
    assert target.work is theirs


def test_when_the_later_patch_goes_first_the_original_comes_back(target: Any) -> None:
    original = target.work
    patches = _on(target)
    patches.install()
    ours = target.work
    _patched_by_somebody(target)
    patches.uninstall()
    target.work = ours
    patches.install()
    assert target.work is ours
    patches.uninstall()
    assert target.work is original


def test_a_call_under_way_while_probes_go_ends_as_it_began(target: Any, heard: Observer) -> None:
    patches = _on(target)
    patches.install()
    heard.meanwhile = patches.uninstall
    assert heard.during(target().work) == [Kind.DRIVER]


def test_a_module_gets_its_probes_when_the_guest_imports_it(tmp_path: Any, monkeypatch: Any, heard: Observer) -> None:
    (tmp_path / "late_driver.py").write_text("def query():\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    patches = Patches({"late_driver": lambda ledger, module: ledger.replace(module, "query", always(Kind.DRIVER))})
    patches.install()
    import late_driver  # type: ignore[import-not-found]

    assert heard.during(late_driver.query) == [Kind.DRIVER]
    patches.uninstall()
    assert heard.during(late_driver.query) == []


def test_a_library_that_looks_different_is_listed_and_its_import_works(tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "odd_driver.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    def place(patches: Patches, module: ModuleType) -> None:
        patches.replace(module, "gone", always(Kind.DRIVER))
        patches.replace(module.Connection, "query", always(Kind.DRIVER))

    patches = Patches({"odd_driver": place})
    patches.install()
    import odd_driver  # type: ignore[import-not-found]

    assert odd_driver.VALUE == 1
    gone, connection = patches.absent()
    assert gone == "odd_driver.gone"
    assert "Connection" in connection
    patches.uninstall()


def test_an_interrupt_leaves_no_phase_open(target: Any, heard: Observer) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    patches = _on(target)
    patches.install()
    heard.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        heard.during(target().work)
    patches.uninstall()
