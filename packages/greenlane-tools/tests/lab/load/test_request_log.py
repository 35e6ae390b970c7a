"""What other programs logged is replayed as they wrote it; the files in `logs` are theirs.

nginx 1.22 and Apache 2.4 logged the same ten requests, and one connection that sent no HTTP. HAR is of mitmproxy 11,
k6.json of k6 (only the metrics of its requests), the tables of locust 2.
"""

from __future__ import annotations

import gzip
import http.client
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from greenlane.errors import SettingsError
from greenlane_tools.lab.load.recorded import form_of, recorded_column, recorded_requests
from greenlane_tools.lab.load.request_log import FORMS
from tests.servers import Nginx

LOGS = Path(__file__).parent / "logs"
TIMED = '$remote_addr [$time_iso8601] $msec $request_time "$request" $status "$http_user_agent" $upstream_response_time'
LOCAL = "[$time_local] $request_time $request_method $request_uri $status"
JSON = (
    '{"time":"$time_iso8601","request_time":$request_time,"method":"$request_method","uri":"$request_uri",'
    '"status":$status,"agent":"$http_user_agent"}'
)
APACHE_TIMED = '%{%Y-%m-%dT%H:%M:%S}t.%{usec_frac}t%{%z}t %D "%r" %>s'
APACHE_ENDED = "%{end:sec}t.%{end:msec_frac}t %D %m %U %>s"
#: When the client sent them, ms from the first, by its own clock.
NGINX_SENT_MS = (0, 48, 97, 148, 198, 600, 904, 997, 1100, 1498)
APACHE_SENT_MS = (0, 37, 87, 137, 204, 594, 887, 1058, 1097, 1487)
ONE_BAD = "1 of its 11 lines hold no request and are left out (the first of them is line 11)"


def at_ms(path: Path, log_format: str = "", route: str = "") -> list[int]:
    return [round(at_ns / 1e6) for at_ns in recorded_requests(path, route=route, log_format=log_format).at_ns]


@pytest.mark.parametrize(
    ("name", "log_format", "sent_ms"),
    [
        ("nginx-timed.log", TIMED, NGINX_SENT_MS),
        ("apache-timed.log", APACHE_TIMED, APACHE_SENT_MS),
        ("apache-ended.log", APACHE_ENDED, APACHE_SENT_MS),
    ],
)
def test_a_log_with_fine_times_gives_the_client_s_own(name: str, log_format: str, sent_ms: tuple[int, ...]) -> None:
    # They lie in a file: what they are off by is nginx' clock of events, and the proxy's own delay of the first one.
    assert np.abs(np.array(at_ms(LOGS / name, log_format)) - sent_ms).max() <= 15
    assert recorded_requests(LOGS / name, log_format=log_format).notes == (ONE_BAD,)


@pytest.mark.parametrize(
    "name", ["nginx-combined.log", "nginx-main.log", "apache-combined.log", "apache-common.log", "apache-vhost.log"]
)
def test_common_logs_are_found_by_themselves_and_a_second_is_spread_evenly(name: str) -> None:
    found = recorded_requests(LOGS / name)
    # Four in the first second, five in the next one, one in the last.
    assert at_ms(LOGS / name) == [0, 250, 500, 750, 975, 1175, 1375, 1575, 1775, 2375]
    bad, whole = found.notes
    assert bad == ONE_BAD and "whole seconds: the requests of a second are spread evenly" in whole
    assert "nginx logs when a request ends" in whole


@pytest.mark.parametrize(("name", "log_format"), [("nginx-local.log", LOCAL), ("nginx-json.log", JSON)])
def test_where_only_the_duration_is_fine_it_is_taken_from_the_end(name: str, log_format: str) -> None:
    # /slow took 356 ms, and ended after /items/2, which began after it.
    assert at_ms(LOGS / name, log_format) == [0, 254, 497, 624, 749, 1179, 1374, 1424, 1579, 2377]
    assert at_ms(LOGS / name, log_format, "/slow") == [624, 1424]


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("GET /quote", 4), ("/quote", 4), ("/items/*", 3), ("POST *", 1), ("GET /items/2", 1), ("*", 10),
    ],
)  # fmt: skip
def test_a_route_is_a_method_and_path_and_a_star_stands_for_anything(route: str, expected: int) -> None:
    assert len(at_ms(LOGS / "nginx-timed.log", TIMED, route)) == expected


def test_a_route_that_nobody_asked_for_is_named_with_those_that_were() -> None:
    with pytest.raises(SettingsError, match=r"route='/trikes', expected one of GET /quote, GET /slow, "):
        recorded_requests(LOGS / "nginx-combined.log", route="/trikes")


def test_har_and_k6_give_when_requests_began() -> None:
    har, k6 = recorded_requests(LOGS / "page.har"), recorded_requests(LOGS / "k6.json")
    assert (len(har.at_ns), har.notes, len(k6.at_ns), k6.notes) == (10, (), 17, ())
    assert len(at_ms(LOGS / "page.har", route="/items/*")) == 3
    assert len(at_ms(LOGS / "page.har", route="GET http://127.0.0.1:18790/quote")) == 4
    # A rate of 6 per s, and one to /slow at the start of each of the four users: k6's `name` takes the URL's place.
    quotes = np.array(at_ms(LOGS / "k6.json", route="/quote"))
    assert len(quotes) == 13 and np.abs(np.diff(quotes) - 1000 / 6).max() < 20
    slow = at_ms(LOGS / "k6.json", route="slow")
    # It took 350 ms and is logged when it ended.
    assert len(slow) == 4 and np.abs(np.array(slow) - quotes[:4]).max() < 10


def test_locust_s_counts_are_spread_over_their_rows_and_that_is_noted() -> None:
    full, short = LOGS / "locust_stats_history.csv", LOGS / "locust_short_stats_history.csv"
    assert len(at_ms(full)) == 39 and len(at_ms(full, route="/items/*")) == 7
    assert len(at_ms(full, route="GET /quote")) == 32
    assert at_ms(short)[:10] == [0, 111, 222, 333, 444, 556, 667, 778, 889, 1000] and len(at_ms(short)) == 18
    assert "locust logs counts" in recorded_requests(short).notes[0]


def test_the_order_of_lines_and_time_zones_do_not_matter(tmp_path: Path) -> None:
    lines = (LOGS / "nginx-timed.log").read_text().splitlines()
    moved = [line.replace("+00:00", "+05:30").replace("T10:", "T15:").replace(":17:", ":47:") for line in lines]
    random.Random(1).shuffle(moved)
    (tmp_path / "moved.log").write_text("\n".join(moved))
    assert at_ms(tmp_path / "moved.log", TIMED) == at_ms(LOGS / "nginx-timed.log", TIMED)
    zones = '127.0.0.1 - - [29/Nov/2026:{} "GET / HTTP/1.1" 200 2\n'
    text = zones.format("12:00:00 +0200]") + zones.format("10:00:03 +0000]") + zones.format("05:00:01 -0500]")
    (tmp_path / "zones.log").write_text(text)
    assert at_ms(tmp_path / "zones.log") == [0, 1000, 3000]


def test_a_packed_log_is_read_and_one_that_breaks_off_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = (LOGS / "nginx-combined.log").read_text().splitlines(keepends=True)[:10]
    source = random.Random(1)
    rest = "".join(f"{source.random()}\n" for _ in range(500))
    whole = gzip.compress(("".join(lines)).encode())
    (tmp_path / "access.log.1.gz").write_bytes(whole)
    assert len(at_ms(tmp_path / "access.log.1.gz")) == 10
    (tmp_path / "cut.gz").write_bytes(gzip.compress(("".join(lines) + rest).encode())[:-1_000])
    found = recorded_requests(tmp_path / "cut.gz")
    assert len(found.at_ns) == 10 and "its compressed data breaks off after line" in found.notes[0]


def test_a_last_line_that_is_cut_off_is_one_that_is_left_out(tmp_path: Path) -> None:
    text = (LOGS / "nginx-combined.log").read_text()
    (tmp_path / "cut.log").write_text(text[: text.rindex("] ") - 9])
    assert len(at_ms(tmp_path / "cut.log")) == 10
    (tmp_path / "cut.json").write_text((LOGS / "k6.json").read_text()[:-40])
    assert recorded_requests(tmp_path / "cut.json").notes[0].startswith("1 of its 54 lines hold no request")


@pytest.mark.parametrize(
    ("content", "why", "hint"),
    [
        (b"", "it is empty", "another file"),
        (b"\n \n", "it is empty", "another file"),
        (b"\x7fELF\0\0\0", "it is binary", "another file"),
        (
            b"[Sun Nov 29 10:17:02 2026] [notice] started\n",
            "in a common format",
            "recorded_format to nginx' log_format",
        ),
        (b'{"ts": 1, "msg": "x"}\n{"ts": 2}\n', "lines of JSON", "recorded_format"),
        (b'{"log": {"entries": [\n', "no whole HAR", "another file"),
        (b'{"log": {"entries": []}}', "it holds no request", "another file"),
        (b'{"metric":"vus","type":"Point","data":{}}\n', "it holds no request", "another file"),
        (b"Type,Name,Request Count,Failure Count\nGET,/,1,0\n", "without times", "_stats_history.csv"),
    ],
)
def test_what_holds_no_arrivals_is_refused_by_naming_the_forms(
    tmp_path: Path, content: bytes, why: str, hint: str
) -> None:
    path = tmp_path / "thing"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as refused:
        recorded_requests(path)
    assert refused.value.rule.startswith(FORMS) and why in refused.value.rule and hint in refused.value.hint


@pytest.mark.parametrize(
    ("log_format", "rule"),
    [
        ("$remote_addr $status", "a format with a time"),
        ("%h %r", "a format with a time"),
        ("%t %Q", "Unknown log format directive"),
        ("$msec $request", "a line of nginx-combined.log is in"),
    ],
)
def test_a_format_that_does_not_fit_is_refused_by_its_name(log_format: str, rule: str) -> None:
    with pytest.raises(SettingsError) as refused:
        recorded_requests(LOGS / "nginx-combined.log", log_format=log_format)
    assert refused.value.setting == "recorded_format" and rule in refused.value.rule


def test_the_ends_of_requests_are_noted_where_their_duration_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "ends.log").write_text("1795947424.721 GET /a\n1795947424.806 GET /b\n")
    found = recorded_requests(tmp_path / "ends.log", log_format="$msec $request")
    assert [at_ns // 1_000_000 for at_ns in found.at_ns] == [0, 85]
    assert found.notes == ("its times are those of the requests' ends, without $request_time",)


def test_a_table_may_have_nginx_times_and_whole_seconds_are_spread(tmp_path: Path) -> None:
    path = tmp_path / "access.csv"
    path.write_text(
        "when,s\n29/Nov/2026:10:00:00 +0000,5\n29/Nov/2026:10:00:00 +0000,5\n29/Nov/2026:11:00:01 +0100,6\n"
    )
    assert recorded_column(path, "when").at_ns == (0, 500_000_000, 1_250_000_000)
    assert recorded_column(path, "s", unit="s").at_ns == (0, 500_000_000, 1_250_000_000)
    assert "whole seconds" in recorded_column(path, "when").notes[0]
    # The lab's own samples are exact: a burst at a full second stays one.
    assert recorded_column(path, "s", unit="ms").at_ns == (0, 0, 1_000_000)


def test_the_form_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(b"at\n1\n3\n"))
    (tmp_path / "recorded").write_bytes(b"\x89GLR\0\0")
    pyarrow.parquet.write_table(pyarrow.table({"at": [1]}), tmp_path / "run.parquet")
    forms = {path.name: form_of(path) for path in sorted([*tmp_path.iterdir(), *LOGS.iterdir()])}
    assert forms.pop("packed.csv.gz") == forms.pop("run.parquet") == "table"
    assert forms.pop("recorded") == "recording"
    assert set(forms.values()) == {"log"}
    assert recorded_column(tmp_path / "packed.csv.gz", "at", unit="s").at_ns == (0, 2_000_000_000)


@pytest.mark.system
@pytest.mark.parametrize("log_format", [TIMED, LOCAL, JSON, ""], ids=["timed", "local", "json", "combined"])
def test_what_nginx_logs_today_is_read(log_format: str) -> None:
    text = log_format.replace("{", "{{").replace("}", "}}")
    own = f"log_format own escape={'json' if log_format == JSON else 'default'} '{text}';" if log_format else ""
    name = "own" if log_format else "combined"
    logs = f"{own} access_log {{folder}}/replayed.log {name};"
    with Nginx(logs + " server {{ listen 127.0.0.1:{port}; location / {{ return 200 ok; }} }}") as nginx:
        kept = http.client.HTTPConnection("127.0.0.1", nginx.port)
        for number in range(20):
            kept.request("GET", f"/items/{number}?of=20", headers={"User-Agent": 'a "shop"'})
            kept.getresponse().read()
        kept.close()
        path = nginx.folder / "replayed.log"
        # It answers, then logs; its check by `Nginx` that it listens sends nothing.
        nginx.stop()
        found = recorded_requests(path, route="GET /items/*", log_format=log_format)
    assert len(found.at_ns) == 20 and list(found.at_ns) == sorted(found.at_ns)
