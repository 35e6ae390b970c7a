"""What the pages are made of: tiles, the last requests, files that fetch nothing."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from feed.pages.routes import Live, page, tile
from feed.record import CATEGORIES
from feed.service.job import Job
from feed.world.catalogue import NOW_S
from feed.world.world import World


def in_a_loop(function: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return function()

    return asyncio.run(main())


class Clock:
    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def job_of(user: int, clock: Clock, took_s: float = 0.05) -> Job:
    job = Job(user, NOW_S, 0.5, began_s=clock() - took_s)
    job.stages.add("features", wall_ns=30_000_000, cpu_ns=20_000_000)
    return job


def test_requests_are_kept_while_somebody_looks_and_no_longer() -> None:
    def story() -> None:
        clock = Clock()
        live = Live(clock)
        live.count(job_of(1, clock))
        assert live.since(0) == {"number": 0, "requests": []}
        clock.now_s += 4.9
        live.count(job_of(2, clock))
        clock.now_s += 0.2
        # Nobody has asked for over 5 s.
        live.count(job_of(3, clock))
        found = live.since(0)
        assert found["number"] == 1 and [one["user"] for one in found["requests"]] == [2]
        assert live.since(1)["requests"] == []

    in_a_loop(story)


def test_a_request_is_told_with_its_stages_and_what_it_lacked() -> None:
    def story() -> None:
        clock = Clock()
        live = Live(clock)
        live.since(0)
        job = job_of(7, clock)
        job.degraded("models", "no answer in time", "fewer candidates")
        live.count(job)
        clock.now_s += 2
        (one,) = live.since(0)["requests"]
        assert (one["wall_ms"], one["ago_s"], one["degraded"]) == (50.0, 2.05, ["models"])
        assert one["stages"]["features"]["cpu_ms"] == 20.0 and one["stages"]["features"]["io_ms"] == 10.0
        json.dumps(one)

    in_a_loop(story)


def test_no_more_than_the_last_five_hundred_are_kept() -> None:
    def story() -> None:
        clock = Clock()
        live = Live(clock)
        live.since(0)
        for user in range(1, 700):
            live.count(job_of(user, clock))
        found = live.since(0)["requests"]
        assert [one["number"] for one in found] == list(range(200, 700))

    in_a_loop(story)


def test_a_tile_says_a_boost_that_is_in_force_and_no_other(world: World) -> None:
    item = world.catalogue.item(5)
    for boost, until_s, wanted in ((2, NOW_S + 1, 2), (2, NOW_S, 0), (0, None, 0), (3, None, 0)):
        shown = tile(item | {"boost": boost, "boost_until_s": until_s}, NOW_S)
        assert shown["boost"] == wanted
    assert CATEGORIES[shown["category_number"]] == item["category"] and 0 <= shown["kind"] < 12
    assert tile(item | {"created_s": NOW_S + 50}, NOW_S)["age_s"] == 0


@pytest.mark.parametrize("name", ["feed", "stages"])
def test_a_page_is_one_file_that_refers_to_nothing_else(name: str) -> None:
    text = page(name)
    assert "@style@" not in text and "@script@" not in text and text.count("@known@") == 1
    assert not re.search(r"https?://|//cdn|@import|url\(|<img|<iframe", text)
    assert re.findall(r'(?:src|href)="([^"]+)"', text) in (["data:,", "/stages"], ["data:,", "/"])


def test_every_category_has_a_shape_of_its_own() -> None:
    shapes = dict(re.findall(r"^  (\w+): '(.+)',$", page("feed"), re.MULTILINE))
    assert set(shapes) == set(CATEGORIES) and len(set(shapes.values())) == len(CATEGORIES)
