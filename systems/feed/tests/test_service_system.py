"""The whole service on real servers: every variant gives the same feed, and a lost part costs its share and is said."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest
import redis

from feed.features import features_of
from feed.first_level.law import Law
from feed.model import ModelFiles, load_catboost
from feed.record import pack, to_hash, to_json
from feed.running import Running
from feed.service.rules import Ranked, arranged
from feed.site import Site
from feed.stores.history import entries, interests_key
from feed.stores.slots import SLOTS, hash_key, json_key, packed_key, shard_of, slot
from feed.variants.table import VARIANTS
from feed.world.catalogue import FIRST_ID, NOW_S
from feed.world.lessons import candidates_of

pytestmark = pytest.mark.system

# Two with a history; one whom the store does not know.
SOMEBODY, OTHER, STRANGER = 3, 8, 999_999
Serve = Callable[[str], Running]


def parts(answer: dict[str, Any]) -> dict[str, str]:
    """What a degraded answer says: part -> reason."""
    return {problem["part"]: problem["reason"] for problem in answer["degraded"]}


def feed_until(asked: Running, wanted: Callable[[dict[str, Any]], bool], seconds: float = 20.0) -> dict[str, Any]:
    """Asks for SOMEBODY's feed until it is as wanted."""
    until = time.monotonic() + seconds
    while not wanted(answer := asked.feed(SOMEBODY)):
        assert time.monotonic() < until, answer["degraded"]
        time.sleep(0.05)
    return answer


class Here:
    """A user's feed as it must be, from its parts called one after the other, without any server."""

    def __init__(self, site: Site, user_id: int) -> None:
        user = site.world.people.user(user_id)
        self._items = {
            item_id: site.world.catalogue.item(item_id - FIRST_ID) for item_id in candidates_of(site.world, user)
        }
        rows = features_of(self._items.values(), user, NOW_S)
        predicted = load_catboost(ModelFiles(site.model)).predict(rows)
        self.scores = dict(zip(self._items, predicted.tolist(), strict=True))

    def ranked(self) -> list[int]:
        return sorted(self._items, key=lambda item_id: (-self.scores[item_id], item_id))

    def arranged(self, ranked: list[int]) -> list[int]:
        assert sorted(ranked) == sorted(self._items)
        best = [self._items[item_id] for item_id in ranked]
        boosts = [item["boost"] if (item["boost_until_s"] or 0) > NOW_S else 0 for item in best]
        return arranged(Ranked(ranked, boosts, *([item[name] for item in best] for name in ("seller_id", "category"))))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_gives_the_feed_that_its_parts_give_one_after_the_other(
    variant: str, site: Site, serve: Serve
) -> None:
    asked = serve(variant)
    for user in (SOMEBODY, OTHER):
        answer = asked.feed(user)
        assert answer["degraded"] == []
        here = Here(site, user)
        # CatBoost and the evaluator in Rust may differ by less than this: only such neighbours may be exchanged.
        scores = [here.scores[item_id] for item_id in answer["ranked"]]
        assert all(better > worse - 1e-5 for better, worse in pairwise(scores))
        assert answer["ids"] == here.arranged(answer["ranked"])


@pytest.mark.parametrize("variant", VARIANTS)
def test_who_has_no_history_gets_a_feed_all_the_same(variant: str, site: Site, serve: Serve) -> None:
    answer = serve(variant).feed(STRANGER)
    assert parts(answer) == {"history": "the user has no history"}
    assert answer["total"] > 500


def test_a_request_is_about_twenty_coroutines(inline: Running) -> None:
    assert 12 <= inline.feed(SOMEBODY)["coroutines"] <= 24


def test_stages_say_where_the_time_went(inline: Running) -> None:
    stages = inline.feed(SOMEBODY)["stages"]
    assert {"history", "models", "filter", "records", "decode", "features", "predict", "sort", "rules"} <= set(stages)
    assert stages["features"]["cpu_ms"] > stages["features"]["io_ms"]
    # The model's law sleeps 1 ms.
    assert stages["models"]["wall_ms"] > 1
    for row in stages.values():
        assert row["cpu_ms"] + row["io_ms"] + row["wait_ms"] == pytest.approx(row["wall_ms"], rel=0.01, abs=0.1)


def test_pages_are_pieces_of_one_ranking(inline: Running) -> None:
    whole = inline.feed(SOMEBODY)
    page = inline.get(f"/feed?user={SOMEBODY}&size=100")
    assert (page["total"], page["ids"]) == (whole["total"], whole["ids"][:100])
    ids = page["ids"]
    while page["next"]:
        page = inline.get(page["next"])
        ids += page["ids"]
    assert ids == whole["ids"]


def test_a_page_of_a_feed_that_is_gone_is_made_anew_and_says_so(inline: Running) -> None:
    page = inline.get(f"/feed/{SOMEBODY}-000000000000?from=10&size=5")
    assert parts(page) == {"paging": "this feed is no longer kept"}
    assert page["ids"] == inline.feed(SOMEBODY)["ids"][10:15]


@pytest.mark.parametrize("path", ["/feed", "/feed?user=me", "/feed?user=0", "/feed?user=3&size=0", "/feed/nonsense"])
def test_a_question_that_makes_no_sense_is_the_askers_fault(inline: Running, path: str) -> None:
    assert inline.status(path) == 400


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process hangs: it answers nothing, and its connections stay."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def lost_to(shard: int, ids: list[int], key_of: Callable[[int], str] = json_key) -> set[int]:
    return {item_id for item_id in ids if shard_of(slot(key_of(item_id).encode())) == shard}


def test_a_killed_shard_costs_its_items_rank_and_comes_back(site: Site, inline: Running) -> None:
    well = inline.feed(SOMEBODY)
    lost = lost_to(1, well["ids"])
    site.items.shards[1].kill()
    try:
        answer = inline.feed(SOMEBODY)
        assert parts(answer)["records"].startswith("shard 1: ")
        assert sorted(answer["ids"]) == sorted(well["ids"])
        assert set(answer["ids"][-len(lost) :]) == lost
    finally:
        site.items.shards[1].start()
    assert feed_until(inline, lambda answer: not answer["degraded"])["ids"] == well["ids"]


def test_a_shard_killed_under_load_costs_no_answer(site: Site, serve: Serve) -> None:
    asked = serve("greenlane")
    well = asked.feed(SOMEBODY)
    lost = lost_to(2, well["ids"], packed_key)
    with ThreadPoolExecutor(4) as clients:

        def load(requests: int) -> list[Future[dict[str, Any]]]:
            return [clients.submit(asked.feed, SOMEBODY) for _ in range(requests)]

        answers = load(20)
        answers[5].result()
        site.items.shards[2].kill()
        try:
            answers += load(20)
            wait(answers)
        finally:
            site.items.shards[2].start()
        assert all(sorted(answer.result()["ids"]) == sorted(well["ids"]) for answer in answers)
        assert {len(answer.result()["degraded"]) for answer in answers[20:]} == {1}
        assert set(answers[-1].result()["ids"][-len(lost) :]) == lost
    assert feed_until(asked, lambda answer: not answer["degraded"])["ids"] == well["ids"]


@pytest.mark.parametrize("variant", ["inline", "greenlane"])
def test_a_shard_that_hangs_is_left_behind_within_the_deadline(variant: str, site: Site, serve: Serve) -> None:
    asked = serve(variant)
    well = asked.feed(SOMEBODY)
    with stopped(site.items.shards[0].pid):
        began = time.monotonic()
        answer = asked.feed(SOMEBODY, deadline_ms=2_000)
        # Two thirds of the deadline are for records; how far this machine is behind is not the service's.
        assert time.monotonic() - began < 10
    assert parts(answer)["records"] == "shard 0: no answer in time"
    assert sorted(answer["ids"]) == sorted(well["ids"])
    assert feed_until(asked, lambda answer: not answer["degraded"])["ids"] == well["ids"]


def test_without_any_record_the_first_level_s_order_is_the_feed(site: Site, inline: Running) -> None:
    for shard in site.items.shards:
        shard.kill()
    try:
        answer = inline.feed(SOMEBODY)
    finally:
        for shard in site.items.shards:
            shard.start()
    assert parts(answer)["ranking"] == "no records"
    assert answer["ids"] == candidates_of(site.world, site.world.people.user(SOMEBODY))
    feed_until(inline, lambda answer: not answer["degraded"])


def test_a_model_that_ends_fails_or_is_slow_costs_its_candidates(site: Site, inline: Running) -> None:
    for law in (Law(30_000, 30_000), Law(1, 2, fail_frac=1.0)):
        site.set_law("taste", law)
        answer = inline.feed(SOMEBODY, deadline_ms=3_000)
        assert parts(answer)["models"].startswith("taste: ")
        assert answer["total"] > 100
    site.kill_model("taste")
    try:
        assert parts(inline.feed(SOMEBODY))["models"].startswith("taste: ")
    finally:
        site.start_model("taste")
    assert inline.feed(SOMEBODY)["degraded"] == []


def test_without_any_model_there_is_what_was_popular(site: Site, inline: Running) -> None:
    popular = set(site.world.first_level.answer("popular", site.world.people.user(OTHER))[0])
    inline.feed(OTHER)
    for model in site.addresses.models:
        site.set_law(model, Law(1, 2, fail_frac=1.0))
    try:
        answer = inline.feed(SOMEBODY)
    finally:
        for model in site.addresses.models:
            site.set_law(model, Law(1, 2))
    assert parts(answer)["models"] == "no model answered"
    assert answer["ids"]
    assert set(answer["ids"]) <= popular


def test_a_history_store_that_hangs_costs_the_personal_and_the_paging(site: Site, inline: Running) -> None:
    with stopped(site.history.pid):
        answer = inline.feed(SOMEBODY, deadline_ms=3_000)
    assert parts(answer)["history"] == "no answer in time"
    assert parts(answer)["paging"] == "no answer in time"
    assert answer["next"] is None
    assert answer["total"] > 500
    feed_until(inline, lambda answer: not answer["degraded"])


@pytest.mark.parametrize("stored", [b"", b"{", b"[1]", b'{"user_id": 17}'])
def test_an_unreadable_history_is_as_good_as_none(site: Site, inline: Running, stored: bytes) -> None:
    with redis.Redis(port=site.history.port) as client:
        client.set(interests_key(17), stored)
        answer = inline.feed(17)
        client.mset(entries(site.world.people.user(17)))
    assert parts(answer) == {"history": "what is stored of the user is unreadable"}
    assert inline.feed(17)["degraded"] == []


@pytest.fixture
def some_records_are_old_and_some_broken(site: Site) -> Iterator[None]:
    items = [site.world.catalogue.item(number) for number in range(400)]
    with redis.RedisCluster(host="127.0.0.1", port=site.items.ports[0]) as client:
        site.items.wait_writable()
        for number, item in enumerate(items):
            item_id = item["item_id"]
            client.delete(hash_key(item_id))
            broken = number % 2
            client.hset(hash_key(item_id), mapping={"price": "cheap"} if broken else to_hash(item, 1))
            client.set(json_key(item_id), b'{"item_id":' if broken else to_json(item, 1))
            client.set(packed_key(item_id), b"\x02\x00" if broken else pack(item, 1))
        yield
        for item in items:
            item_id = item["item_id"]
            client.delete(hash_key(item_id))
            client.hset(hash_key(item_id), mapping=to_hash(item))
            client.set(json_key(item_id), to_json(item))
            client.set(packed_key(item_id), pack(item))


@pytest.mark.usefixtures("some_records_are_old_and_some_broken")
@pytest.mark.parametrize("variant", VARIANTS)
def test_old_records_are_ranked_and_broken_ones_shown_last(variant: str, site: Site, serve: Serve) -> None:
    answer = serve(variant).feed(SOMEBODY)
    reasons = sorted(problem["reason"] for problem in answer["degraded"])
    ids = candidates_of(site.world, site.world.people.user(SOMEBODY))
    broken = [item_id for item_id in ids if item_id < FIRST_ID + 400 and item_id % 2]
    old = [item_id for item_id in ids if item_id < FIRST_ID + 400 and not item_id % 2]
    assert reasons == sorted([f"{len(broken)} are unreadable", f"{len(old)} are of an older version"])
    assert answer["ids"][-len(broken) :] == broken
    assert sorted(answer["ids"]) == sorted(ids)


@pytest.mark.parametrize("variant", ["pool", "split", "shared-memory"])
def test_a_killed_worker_costs_one_ranking_at_most_and_is_replaced(variant: str, serve: Serve) -> None:
    asked = serve(variant)
    service, *workers = asked.get("/totals")["pids"]
    assert service == asked.process.pid
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    for _ in range(4):
        assert set(parts(asked.feed(SOMEBODY))) <= {"ranking"}
    feed_until(asked, lambda answer: not answer["degraded"] and len(asked.get("/totals")["pids"]) == 3)
    assert asked.process.running()


def test_slots_are_those_that_redis_computes(site: Site) -> None:
    with redis.Redis(port=site.items.ports[0]) as client:
        for key in ("item:10000000", "{17}10000001", "foo{}{bar}", "{user1000}.following", "a{b"):
            assert int(client.execute_command("CLUSTER KEYSLOT", key)) == slot(key.encode()) < SLOTS


def test_totals_count_requests_stages_and_problems(inline: Running) -> None:
    before = inline.get("/totals")
    inline.feed(SOMEBODY)
    inline.feed(STRANGER)
    after = inline.get("/totals")
    assert after["requests"] - before["requests"] == 2
    assert after["problems"]["history"] - before["problems"].get("history", 0) == 1
    assert after["stages"]["features"]["cpu_ms"] > before["stages"]["features"]["cpu_ms"]


def test_the_site_knows_its_processes(site: Site) -> None:
    pids = site.pids()
    assert {part: len(found) for part, found in pids.items()} == {"history": 1, "models": 4, "shards": 3}
    for part, found in pids.items():
        for pid in found:
            with open(f"/proc/{pid}/cmdline") as command:
                assert ("first_level" if part == "models" else "redis-server") in command.read()
