"""What is shown of the rows."""

from __future__ import annotations

import re

from greenlane_tools.lab.accept.contenders import SERVERS, contenders, limited
from greenlane_tools.lab.accept.measuring import Accepting, Kernel, Limit, Row
from greenlane_tools.lab.accept.shown import shown, tables, typical_burst

UP = Accepting(
    "gunicorn-20.0.4", "20.0.4", "gevent", "tcp", "", 4, True, listeners=1, requests=10, share_split=[4, 3, 2, 1],
    share_max_frac=0.4, share_max_ratio=1.6, burst_size=20, burst_split=[[0, 20, 0, 0], [5, 5, 5, 5], [1, 2, 17, 0]],
    burst_max_frac=0.7, burst_last_ms=120.0, accepted_at_once=20, accepted_unread_ms=90.0, kept_connections=4,
    kept_requests=8, kept_split=[8, 0, 0, 0], kept_max_frac=1.0,
)  # fmt: skip
DOWN = Accepting("gunicorn", "27.0.1", "gevent", "unix", "--reuse-port", 4, False, said="refused <here>")
LIMIT = Limit("gunicorn", "27.0.1", "gevent", "--worker-connections 3", 3, 5, 12, [0.05] * 3 + [5.1] * 3, 6)
KERNEL = Kernel("epoll", 4, 10, 1, [4, 3, 2, 1], 0.4)
ROWS: list[Row] = [UP, DOWN, LIMIT, KERNEL]


def test_the_burst_shown_is_the_one_in_the_middle():
    assert typical_burst(UP) == [17, 2, 1, 0]
    assert typical_burst(DOWN) == []


def test_a_contender_that_does_not_start_has_its_reason_below_the_table():
    accepting, limits, kernel = tables(ROWS)
    assert [line["listeners"] for line in accepting.rows] == ["1", "no start"]
    assert accepting.rows[0]["burst of 20"] == "17/2/1/0"
    assert accepting.rows[0]["contender"] == "gunicorn-20.0.4"
    assert accepting.notes == ("gunicorn 27.0.1 unix --reuse-port does not start: refused <here>",)
    assert limits.rows[0]["answered after (s)"] == "3 × 0.05, 3 × 5.10"
    assert kernel.rows[0]["connections"] == "4/3/2/1"
    assert all(set(table.columns) == set(line) for table in (accepting, limits, kernel) for line in table.rows)


def test_the_page_shows_all_and_escapes_what_servers_say():
    text = shown(ROWS, {"uvicorn": "offline"}, {"kernel": "6.18"}).page()
    assert "refused &lt;here&gt;" in text and "Without uvicorn: offline." in text
    assert text.count("<svg") == 5  # three maps of shares, the limit, the kernel
    assert not re.search(r'(src|href)="http', text)


def test_every_gunicorn_is_run_with_and_without_reuse_port_on_both_sockets():
    found = {cell.name for cell in contenders(SERVERS, ("tcp", "unix"))}
    for name in (name for name in SERVERS if name.startswith("gunicorn")):
        assert {f"{name} {rest}" for rest in ("tcp", "unix", "tcp --reuse-port", "unix --reuse-port")} <= found
    assert {"gunicorn-20.0.4 unix max_accept=1", "gunicorn unix max_accept=100", "granian unix"} <= found


def test_a_limit_is_said_in_each_servers_own_words():
    assert limited("gunicorn", 3, 5).options == ("--worker-connections", "3", "--keep-alive", "5")
    assert limited("uvicorn", 3, 5).options == ("--limit-concurrency", "3", "--timeout-keep-alive", "5")
    assert limited("granian", 3, 0).options == ("--backpressure", "3", "--no-http1-keep-alive")
