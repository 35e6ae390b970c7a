"""The demo as people start it: a short run from end to end, Ctrl-C, and the page in a real browser."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from greenlane_tools.lab.processes import descendants, found_by
from offers.build import PROGRAMS, program
from offers.site import ROOT
from tests.servers import Browser, Page
from tests.servers.server import find

pytestmark = [pytest.mark.system, pytest.mark.skipif(shutil.which("go") is None, reason="no Go: scripts/toolchain go")]
PROGRAM = [str(Path(sys.executable).with_name("greenlane")), "demo", "offers"]
ENV = found_by(ROOT)
#: What every row has, for any reader.
FIELDS = (
    "contender", "region", "fix", "endpoint", "stage", "offered_per_s", "done_per_s", "samples", "success_frac",
    "success_low_frac", "success_high_frac", "nines", "nines_is_bound", "p50_ms", "p95_ms", "p99_ms", "p999_ms",
    "wasted_cpu_frac", "flicker_per_minute", "cpu_utilisation_frac", "cpu_ms_per_job", "pss_mb", "errors", "lost",
    "late", "missed", "timeouts_per_s", "poll_p50_ms", "poll_p99_ms", "processes", "core_wait_frac",
)  # fmt: skip
#: Itself, two processes of upstreams, gunicorn with its worker, offerservice.
_FAMILY = 6


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """The Go programs are there: a demo that builds them has the compiler's processes in its family as well."""
    for name in PROGRAMS:
        program(name)


@pytest.mark.parametrize(
    ("options", "contender", "processes"),
    [
        # gunicorn and its one worker: permits are no process.
        (["--fix", "permits"], "greenlane", 2),
        (["--fix", "permits", "--cancel", "--propagate-deadline"], "greenlane", 2),
        (["--fix", "dedicated"], "dedicated", 4),
        # `greenlane serve`, HAProxy and two workers, at least.
        (["--fix", "lane"], "greenlane-soft", 4),
    ],
    ids=["permits", "cancel", "dedicated", "lane"],
)
def test_a_short_run_starts_everything_gives_rows_and_leaves_nothing(
    tmp_path: Path, options: list[str], contender: str, processes: int
) -> None:
    if contender == "greenlane-soft":
        find("haproxy", name="HAProxy")
    options = [*options, "--region", "north", "--seconds", "1", "--repetitions", "1", "--json"]
    with subprocess.Popen(
        [*PROGRAM, *options, "--out", str(tmp_path)], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as demo:
        family = grown(demo.pid)
        out, err = demo.communicate(timeout=100)
    assert demo.returncode == 0, err.decode()
    assert not [pid for pid in family if ours(pid)]
    document = json.loads(out)
    assert document["schema"] == "greenlane.demo-offers/1" and document["environment"]["versions"]["gevent"]
    offers, *others = document["rows"]
    assert not [field for field in FIELDS if field not in offers]
    assert (offers["contender"], offers["fix"], offers["region"]) == (contender, options[1], "north")
    # Riders who poll 20 times a second for a second: a bike and a scooter each.
    assert 20 <= offers["samples"] <= 60
    # What has no time left is refused, where the deadline is known.
    assert offers["errors"] == 0 or "--propagate-deadline" in options
    assert offers["processes"] == processes or (contender == "greenlane-soft" and offers["processes"] > processes)
    assert 100 < offers["p50_ms"] and 0 < offers["cpu_utilisation_frac"] < 2
    assert {"direct-light", "direct-mixed"} <= {row["endpoint"] for row in others}
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == document["rows"]


def test_added_wait_is_measured_beside_the_twin_in_a_short_run(tmp_path: Path) -> None:
    options = ["--contenders", "greenlane,go", "--utilisations", "0.7", "--seconds", "2", "--json"]
    done = subprocess.run(
        [*PROGRAM, *options, "--out", str(tmp_path)], env=ENV, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    rows = {row["contender"]: row for row in document["rows"]}
    assert set(rows) == {"go", "greenlane"}
    for row in rows.values():
        assert (row["endpoint"], row["region"]) == ("offers, added wait", "north")
        # Riders who poll 20 times a second for two seconds: a bike and a scooter each.
        assert 40 <= row["samples"] <= 120 and row["errors"] == 0
        assert row["alone_p50_ms"] > 100 and row["computing_per_s"] > 0
    (verdict,) = document["verdicts"]
    assert "0.7 of a core, greenlane ÷ go" in verdict["text"]
    assert len(json.loads((tmp_path / "run.json").read_text())) == 2


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    command = [*PROGRAM, "--fix", "none", "--out", str(tmp_path)]
    with subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        family = grown(demo.pid)
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=60)
    assert (demo.returncode, out) == (130, b"")
    assert b"stopped; all processes ended" in err
    assert not [pid for pid in family if ours(pid)]


def grown(pid: int) -> list[int]:
    """All processes of the demo, as soon as each part is there."""
    until_s = time.monotonic() + 100
    while len(family := descendants(pid)) < _FAMILY:
        assert time.monotonic() < until_s and family
        time.sleep(0.05)
    return family


def ours(pid: int) -> bool:
    """It still runs a part of offers; the number may be a stranger's by now."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(part in words for part in (b"offers", b"gunicorn", b"greenlane"))


@pytest.fixture(scope="module")
def page_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    said = tmp_path_factory.mktemp("page") / "stderr"
    with said.open("wb") as err:
        demo = subprocess.Popen([*PROGRAM, "--page", "--region", "hills"], env=ENV, stdout=subprocess.PIPE, stderr=err)
        try:
            assert demo.stdout is not None
            url = demo.stdout.readline().decode().strip()
            assert url, said.read_text()
            yield url
        finally:
            family = descendants(demo.pid)
            demo.send_signal(signal.SIGINT)
            assert demo.wait(timeout=60) == 130
            assert demo.stdout is not None
            demo.stdout.close()
    assert not [pid for pid in family if ours(pid)]


@pytest.mark.soak
@pytest.mark.parametrize(("width", "dark"), [(360, True), (1440, False)])
def test_the_page_fits_complains_of_nothing_and_asks_nobody_else(
    browser: Browser, page_url: str, width: int, dark: bool
) -> None:
    with browser.open(page_url, width=width, dark=dark) as page:
        offered(page)
        page.until("document.querySelectorAll('#nines polyline').length >= 2")
        assert page.overflow_px() == 0 and page.errors == []
        asked = {urlsplit(url).netloc for url in page.requests if not url.startswith("data:")}
        assert asked == {urlsplit(page_url).netloc}


@pytest.mark.soak
def test_a_button_switches_the_left_service_while_riders_go_on(browser: Browser, page_url: str) -> None:
    with browser.open(page_url) as page:
        offered(page)
        page.click("#fixes [data-name=permits]")
        page.until("facts.sides.changing.hills.fix === 'permits'", seconds=60)
        page.until("[...document.querySelectorAll('#success text.mark')].some(mark => mark.textContent === 'permits')")
        before = page.evaluate("phones.changing.shown")
        page.until(f"phones.changing.shown > {before} + 1")
        assert page.errors == []


@pytest.mark.soak
def test_a_wrong_question_is_refused_with_its_rule(page_url: str) -> None:
    def asked(path: str, body: bytes | None = None) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(page_url + path, body, timeout=20) as answer:
                return answer.status, str(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)["error"]

    assert asked("live?after=soon") == (400, "ask the page: after='soon', expected a whole number")
    assert asked("offers?side=changing&region=moon")[0] == 400
    for body in (b"{", b'"lane"', b'{"fix": "magic"}', b"[]"):
        status, said = asked("fix", body)
        assert status == 400 and "expected one of none, permits, lane, dedicated" in said


def offered(page: Page) -> None:
    """Until both phones have shown some offers."""
    page.until("Object.values(phones).every(one => one.shown)", seconds=40)
