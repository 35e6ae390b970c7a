"""A module that is awaited is told of once it is there, and its import leaves none of our code behind."""

from __future__ import annotations

import importlib
import runpy
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from greenlane.probes.imports import forget, when_imported

NAME = "greenlane_awaited"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ModuleType]]:
    (tmp_path / f"{NAME}.py").write_text("during = __loader__, __spec__.loader\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    told: list[ModuleType] = []
    yield told
    forget(NAME, told.append)
    sys.modules.pop(NAME, None)


def test_the_module_is_told_of_once_and_the_finder_goes(told: list[ModuleType]) -> None:
    before = list(sys.meta_path)
    when_imported(NAME, told.append)
    assert sys.meta_path[1:] == before
    module = importlib.import_module(NAME)
    assert told == [module]
    assert sys.meta_path == before
    when_imported(NAME, told.append)
    assert told == [module, module], "it is there: at once"
    assert sys.meta_path == before


def test_the_module_has_the_loader_that_it_would_have_had(told: list[ModuleType]) -> None:
    when_imported(NAME, told.append)
    module = importlib.import_module(NAME)
    assert module.__spec__ is not None
    assert {type(found) for found in (*module.during, module.__loader__, module.__spec__.loader)} == {SourceFileLoader}


def test_forgotten_in_time_nothing_is_called(told: list[ModuleType]) -> None:
    before = list(sys.meta_path)
    when_imported(NAME, told.append)
    forget(NAME, told.append)
    forget(NAME, told.append)
    assert sys.meta_path == before
    importlib.import_module(NAME)
    assert told == []


def test_an_import_that_fails_is_as_without_us_and_the_next_one_is_told(told: list[ModuleType], tmp_path: Path) -> None:
    when_imported(NAME, told.append)
    (tmp_path / f"{NAME}.py").write_text("raise KeyError('theirs')")
    with pytest.raises(KeyError, match="theirs"):
        importlib.import_module(NAME)
    assert told == [] and NAME not in sys.modules
    (tmp_path / f"{NAME}.py").write_text("whole = True")
    importlib.invalidate_caches()
    assert told == [] and importlib.import_module(NAME) in told


def test_a_program_that_runs_it_as_a_script_gets_its_code(told: list[ModuleType]) -> None:
    when_imported(NAME, told.append)
    assert "during" in runpy.run_module(NAME)


def test_imports_of_other_threads_find_their_modules_while_the_finder_comes_and_goes(told: list[ModuleType]) -> None:
    """A list that shrinks under a walk makes it pass over an entry: here the one that finds files."""
    failed: list[BaseException] = []
    over = threading.Event()

    def imports() -> None:
        while not over.is_set():
            for name in ("antigravity_of_nobody", "colorsys", "sndhdr_of_nobody", "this"):
                sys.modules.pop(name, None)
                try:
                    importlib.util.find_spec(name)
                except BaseException as error:
                    failed.append(error)
            if importlib.util.find_spec("colorsys") is None:
                failed.append(AssertionError("passed over"))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    threads = [threading.Thread(target=imports) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(10):
            when_imported(NAME, told.append)
            forget(NAME, told.append)
    finally:
        over.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert failed == []
