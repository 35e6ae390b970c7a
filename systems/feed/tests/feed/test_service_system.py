"""The whole service on real servers: every variant gives the same feed, and a lost part costs its share and is said."""

from __future__ import annotations

import os
import shutil
import signal
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis

from feed.children import ROOT, Process, command
from feed.compiled import NAME as COMPILED
from feed.features import features_of
from feed.first_level.server import Law
from feed.model import ModelFiles, load_catboost
from feed.record import pack, to_json
from feed.running import Running, started
from feed.service.rules import Ranked, arranged
from feed.site import Site
from feed.stores.history import entries, feed_key
from feed.stores.items import SLOTS, json_key, packed_key, shard_of, slot
from feed.user import MOST_ACTIVE
from feed.variants.ranking import VARIANTS
from feed.world.catalogue import FIRST_ID, NOW_S
from feed.world.lessons import candidates_of
from greenlane_tools.lab.processes import descendants, found_by

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
@pytest.mark.gate
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
        answer = asked.feed(SOMEBODY, deadline_ms=3_000)
        # Two thirds of the deadline are for records; how far this machine is behind is not the service's.
        assert time.monotonic() - began < 10
    # On a crowded machine others may be late as well.
    assert "shard 0: no answer in time" in [problem["reason"] for problem in answer["degraded"]]
    assert sorted(answer["ids"]) == sorted(well["ids"])
    assert feed_until(asked, lambda answer: not answer["degraded"])["ids"] == well["ids"]


class Several:
    """Variants that are asked at once: what is broken is broken for all, and they wait for it together."""

    def __init__(self, serve: Serve, names: Sequence[str]) -> None:
        self.services = {name: serve(name) for name in names}

    def feeds(self, user: int = SOMEBODY, deadline_ms: float = 0) -> dict[str, dict[str, Any]]:
        """By variant. Raises HTTPError where one answers with an error."""
        with ThreadPoolExecutor(len(self.services)) as clients:
            asked = {name: clients.submit(one.feed, user, deadline_ms) for name, one in self.services.items()}
        return {name: answer.result() for name, answer in asked.items()}

    def say(self, part: str, reason: str, user: int = SOMEBODY, deadline_ms: float = 0) -> dict[str, dict[str, Any]]:
        """Their feeds, which all lack this and say so; on a crowded machine they may lack more."""
        answers = self.feeds(user, deadline_ms)
        for name, answer in answers.items():
            said = [problem["reason"] for problem in answer["degraded"] if problem["part"] == part]
            assert any(one.startswith(reason) for one in said), (name, answer["degraded"])
            assert answer["ids"], name
        return answers

    def are_well(self) -> None:
        """Soon, all of them, once more."""
        for one in self.services.values():
            feed_until(one, lambda answer: not answer["degraded"])


@pytest.fixture
def everybody(serve: Serve) -> Several:
    """Each has its own way to records and ranking."""
    there = [variant for variant in VARIANTS if variant != "native-go" or shutil.which("go")]
    return Several(serve, (*there, COMPILED))


@pytest.fixture
def either(serve: Serve) -> Several:
    """One of Python and the one in Rust: history, models, paging are the same code in all of Python."""
    return Several(serve, ("inline", COMPILED))


# So long a hanging part is waited for at most; parts have shares of it.
HANGING_MS = 3_000.0


def test_without_any_record_the_first_level_s_order_is_the_feed(site: Site, everybody: Several) -> None:
    for shard in site.items.shards:
        shard.kill()
    try:
        answers = everybody.say("ranking", "no records")
    finally:
        for shard in site.items.shards:
            shard.start()
    order = candidates_of(site.world, site.world.people.user(SOMEBODY))
    for name, answer in answers.items():
        assert answer["ids"] == order, name
    everybody.are_well()


def test_shards_that_hang_cost_no_answer(site: Site, everybody: Several) -> None:
    # A service that was never asked does not know yet which shard has what.
    everybody.are_well()
    with stopped(site.items.shards[0].pid), stopped(site.items.shards[1].pid), stopped(site.items.shards[2].pid):
        answers = everybody.say("ranking", "no records", deadline_ms=HANGING_MS)
    for answer in answers.values():
        assert "shard 1: no answer in time" in [problem["reason"] for problem in answer["degraded"]]
    everybody.are_well()


def test_a_model_that_ends_fails_or_is_slow_costs_its_candidates(site: Site, either: Several) -> None:
    for law in (Law(30_000, 30_000), Law(1, 2, fail_frac=1.0)):
        site.set_law("taste", law)
        answers = either.say("models", "taste: ", deadline_ms=HANGING_MS)
        assert all(answer["total"] > 100 for answer in answers.values())
    site.kill_model("taste")
    try:
        either.say("models", "taste: ")
    finally:
        site.start_model("taste")
    either.are_well()


def test_without_any_model_there_is_what_was_popular(site: Site, either: Several) -> None:
    popular = set(site.world.first_level.answer("popular", site.world.people.user(OTHER))[0])
    either.feeds(OTHER)
    for model in site.addresses.models:
        site.set_law(model, Law(1, 2, fail_frac=1.0))
    try:
        answers = either.say("models", "no model answered")
    finally:
        for model in site.addresses.models:
            site.set_law(model, Law(1, 2))
    for name, answer in answers.items():
        assert set(answer["ids"]) <= popular, name


def test_a_history_store_that_hangs_costs_the_personal_and_the_paging(site: Site, either: Several) -> None:
    with stopped(site.history.pid):
        answers = either.say("history", "no answer in time", deadline_ms=HANGING_MS)
    for answer in answers.values():
        assert parts(answer)["paging"] == "no answer in time"
        assert answer["next"] is None
    either.are_well()


@pytest.mark.parametrize(
    "stored",
    [
        {"interests": b""},
        {"interests": b"{"},
        {"interests": b"[1]"},
        {"interests": b'{"user_id": 17}'},
        {"seen": b'["a", -5]'},
        {"seen": b"17"},
    ],
    ids=str,
)
def test_an_unreadable_history_is_as_good_as_none(
    site: Site, either: Several, stored: dict[str, bytes]
) -> None:  # fmt: skip
    with redis.Redis(port=site.history.port) as client:
        client.mset({f"{name}:17": value for name, value in stored.items()})
        either.say("history", "the stored user is unreadable", user=17)
        client.mset(entries(site.world.people.user(17)))
    assert not any(answer["degraded"] for answer in either.feeds(17).values())


def test_a_feed_of_a_very_active_user_is_one_page_if_nobody_asks_for_less(site: Site, either: Several) -> None:
    kept = list(range(FIRST_ID, FIRST_ID + MOST_ACTIVE))
    with redis.Redis(port=site.history.port) as client:
        client.set(feed_key("3-000000000001"), array("I", kept).tobytes(), ex=60)
    for name, service in either.services.items():
        page = service.get("/feed/3-000000000001")
        assert (page["ids"], page["next"]) == (kept, None), name


@pytest.fixture
def some_records_are_old_and_some_broken(site: Site) -> Iterator[None]:
    items = [site.world.catalogue.item(number) for number in range(400)]
    with redis.RedisCluster(host="127.0.0.1", port=site.items.ports[0]) as client:
        site.items.wait_writable()
        for number, item in enumerate(items):
            item_id = item["item_id"]
            broken = number % 2
            client.set(json_key(item_id), b'{"item_id":' if broken else to_json(item, 1))
            client.set(packed_key(item_id), b"\x02\x00" if broken else pack(item, 1))
        yield
        for item in items:
            item_id = item["item_id"]
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


@pytest.mark.parametrize("variant", ["pool", "split", "shared-memory", "native-go"])
def test_a_killed_worker_costs_one_ranking_at_most_and_is_replaced(variant: str, serve: Serve) -> None:
    asked = serve(variant)
    service, *workers = asked.get("/totals")["pids"]
    assert service == asked.process.pid
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    for _ in range(4):
        assert set(parts(asked.feed(SOMEBODY))) <= {"ranking"}
    replaced = {service, *workers}
    feed_until(asked, lambda answer: not answer["degraded"] and not replaced >= set(asked.get("/totals")["pids"]))
    assert asked.process.running()


def test_a_bucket_that_moves_to_another_shard_is_followed(site: Site, serve: Serve) -> None:
    services = [serve("greenlane"), serve(COMPILED)]
    well = [asked.feed(SOMEBODY)["ids"] for asked in services]
    number = slot(packed_key(0).encode())
    owner = shard_of(number)
    site.items.wait_writable()
    for here, there in ((owner, (owner + 1) % 3), ((owner + 1) % 3, owner)):
        moved(site, number, here, there)
        for asked, ids in zip(services, well, strict=True):
            # One that is sent on says so, and what is there now.
            assert {problem["part"] for problem in asked.feed(SOMEBODY)["degraded"]} <= {"records"}
            assert asked.feed(SOMEBODY)["ids"] == ids
            assert asked.feed(SOMEBODY)["degraded"] == []


def moved(site: Site, number: int, here: int, there: int) -> None:
    """A slot with its keys goes from one shard to another, as `redis-cli --cluster reshard` does it."""
    shards = [redis.Redis(port=site.items.ports[one]) for one in range(3)]
    names = [shard.execute_command("CLUSTER MYID").decode() for shard in shards]
    shards[there].execute_command("CLUSTER SETSLOT", number, "IMPORTING", names[here])
    shards[here].execute_command("CLUSTER SETSLOT", number, "MIGRATING", names[there])
    keys = shards[here].execute_command("CLUSTER GETKEYSINSLOT", number, 10_000)
    assert keys
    shards[here].execute_command("MIGRATE", "127.0.0.1", site.items.ports[there], "", 0, 5_000, "KEYS", *keys)
    # First who gets it: the slot is never without an owner.
    for one in (there, here, 3 - here - there):
        shards[one].execute_command("CLUSTER SETSLOT", number, "NODE", names[there])
        shards[one].close()


@pytest.mark.parametrize("variant", ["greenlane", COMPILED])
def test_a_burst_waits_and_loses_nothing(variant: str, serve: Serve) -> None:
    asked = serve(variant)
    asked.feed(SOMEBODY)
    with ThreadPoolExecutor(60) as clients:
        answers = list(clients.map(asked.feed, [SOMEBODY] * 60))
    assert [answer["degraded"] for answer in answers] == [[]] * 60


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


# --- The site ends with the process that started it, however that ends.


def family(pid: int) -> list[int]:
    """A process's children and theirs."""
    return descendants(pid)[1:]


def runs(pid: int) -> bool:
    """It is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int]) -> bool:
    """Within 10 s none of them runs."""
    until = time.monotonic() + 10
    while any(map(runs, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(runs, pids))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_of_a_site_or_its_service_outlives_them(
    number: int, folder: Path, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    file = folder / f"site-{number}.json"
    # A relative folder, as the default is.
    items = len(site.world.catalogue)
    flags = ["--folder", ".", "--items", items, "--users", 5, "--addresses", file, "--model", site.model]
    another = Process([*command("feed.site"), *map(str, flags)], folder / "site.log", found_by(ROOT))
    processes = [another]
    try:
        until = time.monotonic() + 60
        while not file.exists():
            assert another.running() and time.monotonic() < until, another.log.read_text()
            time.sleep(0.05)
        service = started("pool", file, folder / "service.log", workers=2, deadline_ms=20_000)
        processes.append(service.process)
        answer = service.feed(3)
        assert answer["total"] > 50
        assert answer["degraded"] == []
        parts, workers = family(another.pid), family(service.process.pid)
        # Three shards, the history store, four models.
        assert (len(parts), len(workers)) == (8, 2)
        for process in processes:
            os.kill(process.pid, number)
        assert gone([another.pid, *parts, service.process.pid, *workers])
    finally:
        for process in processes:
            process.end()
