"""The pytest plugin: the two examples of docs/latency-tests.md, and what it says when a goal is missed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.slow]

PAGE = Path(__file__).parents[3] / "docs" / "latency-tests.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)

SERVER = """
import http.server, threading, time, urllib.request
import pytest

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        until = time.thread_time() + (0.06 if self.path == "/report" else 0.001)
        while time.thread_time() < until:
            pass
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

def asked(path, times, base):
    for _ in range(times):
        urllib.request.urlopen(base + path).read()

@pytest.fixture
def base():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever).start()
    yield "http://127.0.0.1:%d" % server.server_address[1]
    server.shutdown()
    server.server_close()
"""


def run(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=60)


@pytest.mark.parametrize("number", range(2))
def test_the_pages_examples_hold(pytester: pytest.Pytester, number: int) -> None:
    result = run(pytester, EXAMPLES[number])
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*greenlane: latency*", "ok: *at p99*"])


def test_a_goal_that_is_missed_fails_with_the_reports_sentence(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    result = run(
        pytester,
        SERVER
        + """
@pytest.mark.greenlane(route="GET /bikes", wait_p99_ms=5, beside="GET /report")
def test_bikes(base):
    reports = [threading.Thread(target=asked, args=("/report", 8, base)) for _ in range(3)]
    for each in reports:
        each.start()
    asked("/bikes", 15, base)
    for each in reports:
        each.join()

def test_afterwards_nothing_is_recorded():
    import os
    assert not [name for name in os.environ if name.startswith("GREENLANE_RECORD")]
""",
    )
    result.assert_outcomes(failed=1, passed=1)
    said = result.stdout.str()
    assert re.search(r"GET /bikes waited [\d.]+ ms at p99 beside GET /report, allowed 5 ms \(\d+ requests\)", said)
    assert "GET /report" in said and "do       " in said and "proof    greenlane report " in said
    assert "FAILED: GET /bikes waited" in (pytester.path / "summary.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ('route="GET /none", wait_p99_ms=5', "no request of GET /none was recorded; routes that were: GET /bikes"),
        ('route="GET /bikes", wait_p99_ms=500, beside="GET /report"', "no request of GET /bikes beside GET /report"),
        ('route="GET /bikes"', "expected a route, and wait_p99_ms, p99_ms or both"),
        ('route="GET /bikes", p95_ms=5', "unexpected keyword argument 'p95_ms'"),
    ],
)
def test_what_cannot_be_judged_fails(pytester: pytest.Pytester, mark: str, says: str) -> None:
    result = run(
        pytester,
        SERVER
        + f"""
@pytest.mark.greenlane({mark})
def test_bikes(base):
    asked("/bikes", 3, base)
""",
    )
    assert says in result.stdout.str() and result.ret != 0
