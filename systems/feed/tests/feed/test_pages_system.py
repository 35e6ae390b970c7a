"""The pages in a real browser, on a real service: they show what it answers, fit, and ask nobody else."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from feed.running import Running
from feed.site import Site
from feed.world.catalogue import FIRST_ID, NOW_S
from tests.servers import Browser, Page

pytestmark = pytest.mark.system

SOMEBODY = 3


@pytest.fixture
def asked(inline: Running) -> Running:
    return inline


def until_shown(page: Page, count: int) -> None:
    page.until(f"document.querySelectorAll('article').length >= {count}")


def address(asked: Running, path: str) -> str:
    return f"http://127.0.0.1:{asked.port}{path}"


def asks_only(page: Page, asked: Running) -> bool:
    hosts = {urlsplit(url).netloc for url in page.requests if not url.startswith("data:")}
    return hosts == {f"127.0.0.1:{asked.port}"}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [380, 1280])
def test_both_pages_fit_the_window_complain_of_nothing_and_ask_nobody_else(
    browser: Browser, asked: Running, width: int, dark: bool
) -> None:
    with browser.open(address(asked, f"/?user={SOMEBODY}"), width=width, dark=dark) as page:
        until_shown(page, 48)
        assert page.overflow_px() == 0 and page.errors == [] and asks_only(page, asked)
    with browser.open(address(asked, "/stages"), width=width, dark=dark) as page:
        page.until("number >= 0 && document.querySelector('[data-per-s]').click() === undefined")
        page.until("document.querySelectorAll('.row').length")
        assert page.overflow_px() == 0 and page.errors == [] and asks_only(page, asked)


def test_tiles_stand_in_the_feeds_order_and_scrolling_brings_the_rest(browser: Browser, asked: Running) -> None:
    ids = asked.feed(SOMEBODY)["ids"]
    with browser.open(address(asked, f"/?user={SOMEBODY}")) as page:
        until_shown(page, 48)
        seen = page.count("article")
        for _ in range(3):
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            until_shown(page, seen + 48)
            seen = page.count("article")
        shown = page.evaluate("[...document.querySelectorAll('article')].map(one => Number(one.dataset.id))")
        assert shown == ids[: len(shown)]
        assert page.errors == [] and page.text("#problems") == ""


def test_a_tile_shows_its_item_and_a_paid_boost_is_marked(browser: Browser, asked: Running, site: Site) -> None:
    with browser.open(address(asked, f"/?user={SOMEBODY}")) as page:
        until_shown(page, 48)
        tiles = page.evaluate(
            "[...document.querySelectorAll('article')].map(one => ({id: Number(one.dataset.id),"
            " title: one.querySelector('.title').textContent,"
            " drawn: one.querySelectorAll('svg path, svg circle').length,"
            " paid: one.classList.contains('paid'), ribbon: one.querySelector('.ribbon')?.textContent ?? ''}))"
        )
    items = {tile["id"]: site.world.catalogue.item(tile["id"] - FIRST_ID) for tile in tiles}
    for tile in tiles:
        item = items[tile["id"]]
        boost = item["boost"] if (item["boost_until_s"] or 0) > NOW_S else 0
        assert tile["title"] == item["title"] and tile["drawn"] >= 2
        assert tile["paid"] == bool(boost) and tile["ribbon"] == (f"boosted {'▲' * boost}" if boost else "")
    assert any(tile["paid"] for tile in tiles) and not all(tile["paid"] for tile in tiles)


def test_another_user_gets_another_feed_and_a_stranger_one_too(browser: Browser, asked: Running) -> None:
    first = "Number(document.querySelector('article')?.dataset.id ?? 0)"
    with browser.open(address(asked, f"/?user={SOMEBODY}")) as page:
        until_shown(page, 1)
        assert page.evaluate(first) == asked.feed(SOMEBODY)["ids"][0]
        page.evaluate("document.getElementById('user').value = 8")
        page.click("#who button")
        page.until(f"{first} === {asked.feed(8)['ids'][0]}")
        assert page.evaluate("location.search") == "?user=8"
        page.click("#stranger")
        page.until("document.title !== 'feed of user 8' && document.querySelectorAll('article').length >= 48")
        assert page.errors == []


def test_what_an_answer_lacks_is_said_on_the_page(browser: Browser, asked: Running, site: Site) -> None:
    with browser.open(address(asked, f"/?user={SOMEBODY}")) as page:
        until_shown(page, 48)
        site.kill_model("taste")
        try:
            page.click("#who button")
            page.until("document.getElementById('problems').innerText.includes('taste')")
        finally:
            site.start_model("taste")
        assert page.count("article") >= 1


def test_stages_of_requests_appear_while_they_come(browser: Browser, asked: Running) -> None:
    with browser.open(address(asked, "/stages")) as page:
        # It watches from its first question on.
        page.until("performance.getEntriesByType('resource').some(one => one.name.includes('/stages/live'))")
        page.until("fetch('/feed?user=3').then(() => true)")
        page.until("kept.length >= 1")
        shown = set(page.evaluate("[...document.querySelectorAll('.row')].map(one => one.dataset.stage)"))
        assert {"history", "models", "records", "features", "predict", "sort", "answer", "between"} <= shown
        assert page.count("#requests rect") >= 4
        assert page.errors == []


def test_tiles_of_unknown_items_are_null_and_bad_questions_are_refused(asked: Running) -> None:
    tiles = asked.get(f"/tiles?ids={FIRST_ID},1")["tiles"]
    assert tiles[0]["id"] == FIRST_ID and tiles[1] is None
    for path in ("/tiles", "/tiles?ids=", "/tiles?ids=x", "/tiles?ids=-1", f"/tiles?ids={'1,' * 200}1"):
        assert asked.status(path) == 400
    for path in ("/stages/live?after=x", "/stages/live?after=-1", f"/stages/live?after={'9' * 30}"):
        assert asked.status(path) == 400
