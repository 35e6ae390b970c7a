"""The service in Rust gives the feeds of the service in Python, and loses as much when a part is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import redis

from feed import native
from feed.model import ModelFiles, load_forest
from feed.native import SERVICE, build
from feed.record import pack
from feed.running import Running
from feed.site import Site
from feed.stores.items import packed_key, shard_of, slot
from feed.world.catalogue import FIRST_ID, NOW_S
from feed.world.lessons import candidates_of

pytestmark = pytest.mark.system

SOMEBODY, STRANGER = 3, 999_999
Serve = Callable[[str], Running]


@pytest.fixture
def compiled(serve: Serve) -> Running:
    # Before its start, which waits for a minute only.
    build(SERVICE)
    return serve("compiled")


def problems(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(problem["part"], problem["reason"]) for problem in answer["degraded"]]


def wanted(site: Site, number: int) -> list[int]:
    """The feed as the same features, evaluator and rules make it in this process."""
    user = site.world.people.user(number)
    records = site.world.records_of(candidates_of(site.world, user))
    ranking = native.rank(records.tobytes(), user.packed(), NOW_S, load_forest(ModelFiles(site.model)))
    return np.asarray(ranking.arranged()).tolist()


def test_every_user_gets_the_feed_that_python_gives(site: Site, compiled: Running, inline: Running) -> None:
    for number in range(1, 9):
        answer, plain = compiled.feed(number), inline.feed(number)
        assert answer["ids"] == wanted(site, number)
        assert answer["ids"] == plain["ids"]
        assert {name: answer[name] for name in ("user", "from", "total", "next", "degraded")} == {
            name: plain[name] for name in ("user", "from", "total", "next", "degraded")
        }


def test_who_has_no_history_gets_python_s_feed_for_nobody(compiled: Running, inline: Running) -> None:
    answer, plain = compiled.feed(STRANGER), inline.feed(STRANGER)
    assert answer["ids"] == plain["ids"] and answer["degraded"] == plain["degraded"]


def test_pages_are_pieces_of_one_ranking_in_either_service(compiled: Running, inline: Running) -> None:
    whole = compiled.feed(SOMEBODY)
    page = compiled.get(f"/feed?user={SOMEBODY}&size=700")
    ids, services = page["ids"], [inline, compiled]
    while page["next"]:
        page = services[len(ids) % 2].get(page["next"])
        ids += page["ids"]
    assert ids == whole["ids"]
    gone = compiled.get(f"/feed/{SOMEBODY}-000000000000?from=10&size=5")
    assert problems(gone) == [("paging", "this feed is no longer kept")]
    assert gone["ids"] == whole["ids"][10:15]


@pytest.mark.parametrize(
    "path", ["/feed", "/feed?user=me", "/feed?user=0", "/feed?user=3&size=0", "/feed/nonsense", "/nowhere", "/health"]
)
def test_answers_to_odd_questions_have_python_s_status(compiled: Running, inline: Running, path: str) -> None:
    assert compiled.status(path) == inline.status(path)


def test_stages_and_totals_say_where_the_time_went(compiled: Running) -> None:
    before = compiled.get("/totals")
    stages = compiled.feed(SOMEBODY)["stages"]
    names = ["history", "models", "filter", "records", "features", "predict", "sort", "rules", "paging", "answer"]
    assert list(stages) == names or sorted(stages) == sorted(names)
    for row in stages.values():
        assert row["cpu_ms"] + row["io_ms"] + row["wait_ms"] == pytest.approx(row["wall_ms"], abs=0.01)
    after = compiled.get("/totals")
    assert after["requests"] == before["requests"] + 1
    assert after["cpu_ms"] > before["cpu_ms"] and after["pids"] == [compiled.process.pid]


def test_a_killed_shard_costs_its_items_rank_and_comes_back(site: Site, compiled: Running) -> None:
    well = compiled.feed(SOMEBODY)
    lost = {one for one in well["ids"] if shard_of(slot(packed_key(one).encode())) == 1}
    site.items.shards[1].kill()
    try:
        answer = compiled.feed(SOMEBODY)
        assert problems(answer)[0][1].startswith("shard 1: ")
        assert sorted(answer["ids"]) == sorted(well["ids"])
        assert set(answer["ids"][-len(lost) :]) == lost
    finally:
        site.items.shards[1].start()
    assert _until_well(compiled)["ids"] == well["ids"]


def test_records_of_an_older_version_and_unreadable_ones_are_said(site: Site, compiled: Running) -> None:
    well = compiled.feed(SOMEBODY)
    first, second = well["ids"][:2]
    kept = {one: _stored(site, one) for one in (first, second)}
    try:
        _store(site, first, pack(site.world.catalogue.item(first - FIRST_ID), version=1))
        _store(site, second, b"no record")
        answer = compiled.feed(SOMEBODY)
        assert problems(answer) == [("records", "1 are unreadable"), ("records", "1 are of an older version")]
        assert answer["ids"][-1] == second and sorted(answer["ids"]) == sorted(well["ids"])
    finally:
        for one, value in kept.items():
            _store(site, one, value)
    assert compiled.feed(SOMEBODY)["ids"] == well["ids"]


def _until_well(asked: Running, seconds: float = 20.0) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while (answer := asked.feed(SOMEBODY))["degraded"]:
        assert time.monotonic() < until, answer["degraded"]
        time.sleep(0.05)
    return answer


def _client(site: Site, item_id: int) -> redis.Redis:
    return redis.Redis(port=site.items.ports[shard_of(slot(packed_key(item_id).encode()))])


def _stored(site: Site, item_id: int) -> bytes:
    with _client(site, item_id) as client:
        value = client.get(packed_key(item_id))
    assert isinstance(value, bytes)
    return value


def _store(site: Site, item_id: int, value: bytes) -> None:
    site.items.wait_writable()
    with _client(site, item_id) as client:
        client.set(packed_key(item_id), value)
