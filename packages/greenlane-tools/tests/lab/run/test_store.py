"""The folder of a result: finished runs come back, others are refused, a half-written one is made again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tests.lab.made import PRICING, run, sample, scenario

from greenlane.errors import GreenlaneError, SettingsError
from greenlane_tools.lab.run.faults import Done
from greenlane_tools.lab.run.performed import Closed, Run
from greenlane_tools.lab.run.runner import stored
from greenlane_tools.lab.run.store import Store
from greenlane_tools.lab.scenario.catalogue import adapted

MADE: Run = dataclasses.replace(
    run([sample(300.0), sample(5.0, "quote", status=503)]),
    faults=(Done("stall", "server", 5, 9, "SIGSTOP to 1"),), dead=("server",), said="last words",
    contrast=(Closed("ab", 8.0, 9, 0, 1.0, None, 3.0),), late="late", lag_p99_ms=9.0,
)  # fmt: skip


def opened(folder: Path, seed: int = 1, fresh: bool = False) -> tuple[Store, int]:
    store = Store(folder, {"seed": seed, "versions": {"numpy": "1"}}, {"scenario": "text"})
    return store, store.open(fresh)


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    store, kept = opened(tmp_path)
    assert kept == 0
    store.save(MADE)
    store.keep_note("costs_ms", {"bikes": 4.0})
    store, kept = opened(tmp_path)
    assert kept == 1 and store.note("costs_ms") == {"bikes": 4.0}
    again = store.load(MADE.turn)
    assert again is not None
    for field in dataclasses.fields(Run):
        if field.name != "samples":
            assert getattr(again, field.name) == getattr(MADE, field.name), field.name
    assert np.array_equal(again.samples.done_ns, MADE.samples.done_ns)
    assert again.samples.of("quote").status.tolist() == [503]


def test_runs_of_another_identity_are_refused_and_forgotten_when_asked(tmp_path: Path) -> None:
    opened(tmp_path)[0].save(MADE)
    with pytest.raises(SettingsError, match=r"seed differs.*\n.*--fresh"):
        opened(tmp_path, seed=2)
    store, kept = opened(tmp_path, seed=2, fresh=True)
    assert kept == 0 and store.load(MADE.turn) is None


def test_a_folder_without_room_is_named_and_keeps_what_is_there(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    (tmp_path / "samples").rmdir()
    with pytest.raises(GreenlaneError, match=r"--out='.*', expected a folder that can be written \(.*\n.*resumes"):
        store.save(MADE)


def test_a_run_whose_samples_are_gone_is_made_anew(tmp_path: Path) -> None:
    store, _ = opened(tmp_path)
    store.save(MADE)
    (tmp_path / "samples" / f"{MADE.turn.label}.parquet").write_bytes(b"half")
    assert store.load(MADE.turn) is None


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    with pytest.raises(SettingsError, match=r"--out=.*expected a folder that can be written"):
        opened(taken)


def test_what_is_measured_decides_and_words_do_not(tmp_path: Path) -> None:
    def kept(changed: object) -> int:
        assert isinstance(changed, type(PRICING))
        return stored(changed, tmp_path).open(False)

    store = stored(PRICING, tmp_path)
    store.open(False)
    store.save(MADE)
    assert kept(PRICING) == 1
    assert kept(dataclasses.replace(PRICING, expected="something else", bounds=())) == 1
    # More repetitions of runs as long as before are further runs of the same result.
    assert kept(adapted(PRICING, seconds=22.0, repetitions=4)) == 1
    for other in (adapted(PRICING, seconds=22.0), adapted(PRICING, seed=2), scenario()):
        with pytest.raises(SettingsError, match="--fresh"):
            kept(other)
