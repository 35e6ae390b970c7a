"""The page in a real browser, on a real backend: it shows what flows, fits, and asks nobody else."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import pytest

from pos.site import Site
from tests.pos.conftest import MERCHANTS, Backend
from tests.servers import Browser

pytestmark = pytest.mark.system


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
