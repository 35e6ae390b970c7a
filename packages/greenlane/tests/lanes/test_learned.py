"""What is learned survives a restart, and a broken file is named."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
from pathlib import Path

import pytest
from tests.lanes.burners import permits, teach

from greenlane.errors import LearnedFileError
from greenlane.lanes import learned
from greenlane.lanes.learned import StoredChoice
from greenlane.lanes.permits import StoredPhase


def phase(number: int = 0, samples: int = 10) -> StoredPhase:
    """A phase of 40 ms bursts."""
    return StoredPhase(number, (0,) * 20 + (2560,), 40_000_000, samples, 8, 0)


def test_a_restarted_process_knows_its_heavy_phases(tmp_path: Path) -> None:
    before = permits()
    teach(before, "GET /heavy")
    learned.merge_into(tmp_path / "learned.json", before.stored())
    after = permits()
    after.restore(learned.load(tmp_path / "learned.json"))
    assert [(row.route, row.weight, row.samples) for row in after.learned()] == [("GET /heavy", "heavy", 4)]
    after.open(1, 0, "GET /heavy")
    assert after.pressure() == (1, 0), "it takes turns from its first request on"
    after.close()


def test_an_absent_file_is_empty(tmp_path: Path) -> None:
    assert learned.load(tmp_path / "learned.json") == {}


def test_the_better_known_phase_wins_a_merge(tmp_path: Path) -> None:
    path = tmp_path / "learned.json"
    learned.merge_into(path, {"GET /a": [phase(samples=100)], "GET /b": [phase(samples=1)]})
    learned.merge_into(path, {"GET /a": [phase(samples=5), phase(number=1)], "GET /b": [phase(samples=2)]})
    merged = learned.load(path)
    assert [(one.place, one.samples) for one in merged["GET /a"]] == [(0, 100), (1, 10)]
    assert [one.samples for one in merged["GET /b"]] == [2]


def _write_route(path: Path, number: int) -> None:
    learned.merge_into(path, {f"GET /{number}": [phase()]})


def test_workers_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "learned.json"
    workers = [multiprocessing.get_context("spawn").Process(target=_write_route, args=(path, n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert sorted(learned.load(path)) == [f"GET /{number}" for number in range(4)]


def test_a_count_beyond_the_format_is_kept_at_its_most(tmp_path: Path) -> None:
    path = tmp_path / "learned.json"
    path.write_text(
        json.dumps({"schema": learned.SCHEMA, "routes": {"GET /a": {"0": {**GOOD_PHASE, "samples": 2**40}}}})
    )
    assert learned.load(path)["GET /a"][0].samples == 2**32 - 1


def test_a_lock_that_nobody_gives_back_is_named_after_a_second(tmp_path: Path) -> None:
    path = tmp_path / "learned.json"
    with (tmp_path / "learned.json.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(LearnedFileError, match="lock"):
            learned.merge_into(path, {"GET /a": [phase()]})


GOOD_PHASE = {"mean_ms": 1.0, "samples": 1, "weights": [256], "looks": 0, "free": 0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "{}",
        '{"schema": "greenlane.learned/3", "routes": {}}',
        json.dumps({"schema": learned.SCHEMA, "routes": []}),
        json.dumps({"schema": learned.SCHEMA, "routes": {"GET /a": {"x": GOOD_PHASE}}}),
        json.dumps({"schema": learned.SCHEMA, "routes": {"GET /a": {"0": {**GOOD_PHASE, "samples": -1}}}}),
        json.dumps({"schema": learned.SCHEMA, "routes": {"GET /a": {"0": {**GOOD_PHASE, "weights": [2**40]}}}}),
        json.dumps({"schema": learned.SCHEMA, "routes": {"GET /a": {"0": {**GOOD_PHASE, "mean_ms": 1e999}}}}),
        "[" * 100_000,
    ],
)
def test_a_broken_file_is_named_with_a_hint_and_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "learned.json"
    path.write_text(text)
    with pytest.raises(LearnedFileError, match=r"learned_file='.*learned\.json'.*\nhint: delete the file"):
        learned.load(path)
    with pytest.raises(LearnedFileError):
        learned.merge_into(path, {"GET /a": [phase()]})
    assert path.read_text() == text


def test_a_folder_that_does_not_exist_is_named_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(LearnedFileError, match="folder"):
        learned.load(tmp_path / "nowhere" / "learned.json")


def test_a_directory_in_its_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(LearnedFileError, match="readable"):
        learned.load(tmp_path)


def test_choices_stand_beside_the_phases_and_the_latest_wins(tmp_path: Path) -> None:
    path = tmp_path / "learned.json"
    chosen = StoredChoice("process", "calmer", 49_000_000, 80, 7)
    learned.merge_into(path, {}, {"run quote": chosen, "run price": chosen})
    learned.merge_into(path, {"GET /a": [phase()]})
    newer = StoredChoice("thread", "faster", 60_000_000, 3, 7)
    learned.merge_into(path, {}, {"run price": newer})
    assert learned.load_placed(path) == {"run quote": chosen, "run price": newer}
    assert list(learned.load(path)) == ["GET /a"]


@pytest.mark.parametrize("value", ['"x"', "-1", "1e400", "null", "4294967296"])
def test_a_broken_choice_is_named(tmp_path: Path, value: str) -> None:
    path = tmp_path / "learned.json"
    learned.merge_into(path, {}, {"run quote": StoredChoice("process", "calmer", 49_000_000, 80, 7)})
    path.write_text(path.read_text().replace('"code": 7', f'"code": {value}'))
    with pytest.raises(LearnedFileError):
        learned.load_placed(path)
