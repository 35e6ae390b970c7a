"""A worker's turn on a real broker: what it does is measured, and no order is forgotten when it is killed."""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from greenlane_tools.lab.run.talk import LiveTalk
from pos.demo.options import course
from pos.demo.stages import offered, saturated, slow
from pos.merchants.names import SLOW
from pos.site import Site
from tests.pos.conftest import MERCHANTS, Backend
from tests.servers import Browser

pytestmark = pytest.mark.system
TALK = LiveTalk(io.StringIO(), io.StringIO())


@pytest.fixture
def alone(site: Site) -> Iterator[Site]:
    """The site without its own worker."""
    site.workers.pop("gevent-200").end(0)
    yield site
    site.start_worker("gevent-200")


def prefix(name: str) -> str:
    """Of the orders' ids: of those that a run before had the shared store knows that they are done."""
    return f"{name}-{uuid.uuid4().hex[:6]}"


def test_a_slow_merchant_stops_four_processes_and_loses_nothing(alone: Site) -> None:
    alone.set_law(SLOW, median_ms=40_000)
    try:
        found = slow(alone, "prefork-4", prefix("slow"), per_s=30, seconds=1.0, talk=TALK, settle_s=1.0)
    finally:
        alone.set_law(SLOW, median_ms=20)
    of_slow = [done for merchant, _, _, done in found["orders"] if merchant == SLOW]
    of_others = [done for merchant, _, _, done in found["orders"] if merchant != SLOW]
    assert (len(of_slow), len(of_others)) == (10, 20)
    assert not any(of_slow) and sum(done is not None for done in of_others) < 20
    assert found["running_most"][SLOW] == 4 and found["usage"]["processes"] == 5
    assert (found["lost"], found["effects_doubled"]) == (0, 0)


def test_a_full_queue_and_an_even_rate_are_measured_in_a_window_of_their_own(alone: Site) -> None:
    for merchant in alone.around.names():
        alone.set_law(merchant, median_ms=200)
    full = saturated(alone, "prefork-4", prefix("full"), call_s=0.2, seconds=0.5, talk=TALK, warm_s=0.2)
    for merchant in alone.around.names():
        alone.set_law(merchant, median_ms=20)
    assert len(full["done_ms"]) <= 40 and min(full["done_ms"], default=0) >= 0
    assert (full["lost"], full["effects_doubled"], full["emptied"]) == (0, 0, False) and full["usage"]["cpu_ns"] > 0
    even = offered(alone, "prefork-4", prefix("even"), per_s=20, call_s=0.1, seconds=0.5, talk=TALK)
    # A machine that is busy with something else has a longer window, and answers after it.
    assert len(even["latency_ms"]) >= 8 and any(even["latency_ms"])
    assert (even["lost"], even["calls_repeated"]) == (0, 0)


def test_a_loop_without_celery_does_the_orders_of_http_and_grpc_merchants_once(alone: Site) -> None:
    found = slow(alone, "asyncio-200", prefix("loop"), per_s=30, seconds=1.0, talk=TALK, settle_s=2.0)
    assert all(done is not None for *_, done in found["orders"])
    assert (found["lost"], found["effects_doubled"], found["calls_repeated"], found["errors"]) == (0, 0, 0, 0)


def test_a_merchant_becomes_slow_before_the_first_order_and_well_in_the_middle_of_the_run(alone: Site) -> None:
    told: list[tuple[str, bool]] = []

    def set_slow(name: str, is_slow: bool) -> None:
        told.append((name, is_slow))
        alone.set_law(name, median_ms=700 if is_slow else 20)

    way = course("recovers")
    found = slow(
        alone, "gevent-200", prefix("recovers"), per_s=30, seconds=2.0, talk=TALK, settle_s=2.0, way=way,
        set_slow=set_slow,
    )  # fmt: skip
    assert told == [(SLOW, True), (SLOW, False), (SLOW, False)]
    took = [done for merchant, _, _, done in found["orders"] if merchant == SLOW and done is not None]
    assert max(took) > 700 and min(took) < 700
    assert (found["lost"], found["troubled"]) == (0, [SLOW])


# --- The page in a real browser, on a real backend: it shows what flows, fits, and asks nobody else.


def figure(merchant: str, name: str) -> str:
    return f"Number(document.querySelector('[data-merchant={merchant}] [data-figure={name}]')?.textContent ?? -1)"


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)])
def test_it_fits_the_window_complains_of_nothing_and_asks_nobody_else(
    browser: Browser, backend: Backend, width: int, dark: bool
) -> None:
    with browser.open(f"{backend.url}/", width=width, dark=dark) as page:
        page.until("document.querySelectorAll('article').length")
        assert page.count("article") == len(MERCHANTS)
        assert page.overflow_px() == 0 and page.errors == []
        assert {urlsplit(url).netloc for url in page.requests if not url.startswith("data:")} == {
            urlsplit(backend.url).netloc
        }


def test_the_other_slider_diverts_and_a_bulkhead_says_what_it_holds(browser: Browser, backend: Backend) -> None:
    def slid_to(percent: int) -> str:
        return f"find('share').value = {percent}, find('share').dispatchEvent(new Event('input'))"

    def placed() -> bool:
        status, said = backend.ask("/orders", {"merchant": "sushi"})
        assert status == 202
        return bool(backend.ask(said["status"])[1]["queue"] == "greenlane")

    with browser.open(f"{backend.url}/") as page:
        page.until("rows.size && !find('divert').hidden")
        try:
            page.evaluate(slid_to(100))
            page.until("find('share-said').textContent === '100 %'")
            end_s = time.monotonic() + 20
            while not placed():
                assert time.monotonic() < end_s
            page.until("!rows.get('sushi').bulkhead.hidden")
            assert "at most" in page.text("[data-merchant=sushi] .bulkhead")
            assert page.text("[data-merchant=sushi] .bulkhead b") == "closed"
            assert "greenlane (threads)" in page.text("#workers")
        finally:
            page.evaluate(slid_to(0))
        page.until("find('share-said').textContent === '0 %'")
        assert page.errors == []


def test_the_sliders_orders_flow_and_a_slow_merchants_orders_stay_with_it(
    browser: Browser, backend: Backend, site: Site
) -> None:
    with browser.open(f"{backend.url}/") as page:
        page.until("rows.size")
        page.click("[data-merchant=taco] [data-law=slow]")
        page.until("document.querySelector('[data-merchant=taco] [data-law=slow]').ariaPressed === 'true'")
        try:
            page.evaluate("find('load').value = 40, find('load').dispatchEvent(new Event('input'))")
            page.until(f"{figure('bento', 'ended_per_s')} > 1 && {figure('taco', 'running')} >= 5")
            assert page.text("#load-said") == "40"
            # Each waits or runs as a dot, and those that are done leave.
            page.until("rows.get('taco').orders.size >= 5 && rows.get('bento').leaving.length > 0")
            page.until("rows.get('bento').canvas.getContext('2d').getImageData(0, 0, 600, 40).data.some(Boolean)")
            assert page.text("[data-merchant=sushi] small") == "gRPC"
        finally:
            backend.ask("/load", {"per_s": 0})
            site.set_law("taco", median_ms=20)
        assert page.errors == []
