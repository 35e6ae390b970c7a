"""The settings of trust, the lines they become, and the bounds of bodies, without a server."""

from __future__ import annotations

import asyncio
import io
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.serve.corpus import LAST, messages
from tests.serve.test_haproxy import LANES, site

from greenlane.errors import SettingsError
from greenlane.hosts.pace import Pace
from greenlane.settings import Lane
from greenlane_serve.certificate import binds
from greenlane_serve.haproxy import requests, routing
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.settings import ServeSettings
from greenlane_serve.trust import Trust, trust_of
from greenlane_serve.worker import bodies
from greenlane_serve.worker.bodies import Asgi, Bounds
from tests.servers.server import find

ALL = Trust(
    networks=("10.0.0.0/8", "2001:db8::/32"), unix=True, proxy_protocol=True, body_max_bytes=1_000_000, http2=False,
    client_connections=100, websockets=1000, redirect=True,
    access_log="stdout", request_id_header="x-request-id",
    head_max_bytes=32_000, due=True, deadline_headers=("x-due", "grpc-timeout"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"trusted_proxies": ("10.0.0.1/8",)}, "trusted_proxies='10.0.0.1/8'.*bits"),
        ({"trusted_proxies": ("10.0.0",)}, "trusted_proxies='10.0.0'"),
        ({"proxy_protocol": True}, "proxy_protocol=True, expected trusted_proxies"),
        ({"proxy_protocol": True, "trusted_proxies": ("unix",)}, "proxy_protocol=True"),
        ({"tls_bind": ("127.0.0.1:443",)}, "tls_certificate=''"),
        ({"tls_certificate": "a.pem"}, "tls_certificate='a.pem', expected nothing without tls_bind"),
        ({"tls_redirect": True}, "tls_redirect=True"),
        ({"access_log_format": "combined"}, "access_log_format='combined', expected nothing without access_log"),
        ({"bind": ()}, "bind=.*at least one"),
    ],
)
def test_what_would_do_nothing_is_refused(settings: dict[str, Any], names: str) -> None:
    with pytest.raises(SettingsError, match=names):
        trust_of(ServeSettings(**settings))


def test_nobody_is_believed_by_default() -> None:
    lines = list(requests.client_lines(trust_of(ServeSettings())))
    assert not [line for line in lines if "req.hdr" in line or "set-src" in line]
    assert not list(requests.connection_lines(trust_of(ServeSettings())))
    assert not list(requests.log_lines(trust_of(ServeSettings())))


def test_an_address_is_a_network_of_its_own_and_a_hop_counts_only_after_a_trusted_one() -> None:
    trust = trust_of(ServeSettings(trusted_proxies=("10.1.2.3", "unix")))
    assert (trust.networks, trust.unix) == (("10.1.2.3/32",), True)
    second = "set-var(txn.hop2) req.hdr_ip(x-forwarded-for,-2) if { var(txn.hop1) -m ip 10.1.2.3/32 }"
    assert f"http-request {second}" in list(requests.client_lines(trust))


def test_a_request_without_rare_headers_is_looked_through_once_for_all_of_them() -> None:
    trust = trust_of(ServeSettings(), "asgi")
    lines = [line.strip() for line in configuration(site(Path("/run"), (), trust)).splitlines()]
    looks = [line for line in lines if re.search(r"del-header|req\.f?hdr", line) and requests.RARE not in line]
    others = [line for line in looks if "fhdr(host)" not in line and "fhdr_cnt" not in line]
    assert (others, len(looks)) == ([requests.rare_line(trust)], 3)


@pytest.mark.parametrize("trust", [Trust(deadline_headers=("x-due",)), ALL], ids=["default", "all"])
def test_rare_are_all_headers_that_a_line_looks_for(trust: Trust) -> None:
    found = re.search(r"-i '(.*)' }$", requests.rare_line(trust))
    assert found
    lines = "\n".join([*requests.client_lines(trust), *requests.checking_lines(trust)])
    named = re.findall(r"del-header (\S+) -m beg", lines) + re.findall(r"del-header (\S+) if", lines)
    for name in (*named, *requests.FORGEABLE, *requests.FORGEABLE_BEGUN, *trust.deadline_headers, "transfer-encoding",
                 "upgrade", "x-greenlane-lane"):  # fmt: skip
        assert re.search(found[1], f"host,{name},accept", re.IGNORECASE), name
        assert re.search(found[1], name.upper(), re.IGNORECASE), name
    for name in ("upgrade-insecure-requests", "host,accept,user-agent,cookie", "x-request-id", "not-upgrade"):
        assert not re.search(found[1], name, re.IGNORECASE), name


def test_only_who_may_bring_a_deadline_pays_for_one() -> None:
    def text(settings: ServeSettings) -> str:
        return configuration(site(Path("/run"), settings.lanes, trust_of(settings, "asgi")))

    lane = Lane("soon", match=("/soon",), deadline_ms=200)
    assert "due" not in text(ServeSettings())
    assert "backend due" in (by_lane := text(ServeSettings(lanes=(lane,))))
    assert "told" not in by_lane
    assert "set-var(txn.told0)" in text(ServeSettings(trusted_proxies=("unix",)))


def test_websockets_have_servers_of_their_own_only_where_workers_speak_them() -> None:
    assert trust_of(ServeSettings(), "asgi").websockets == 1000
    assert trust_of(ServeSettings(), "wsgi").websockets == 0
    text = configuration(site(Path("/run"), LANES, ALL))
    assert routing.twins(text) == {"shared": "sockets-shared", "lane-reports": "sockets-lane-reports"}
    assert routing.twins(configuration(site(Path("/run"), LANES))) == {}


def test_only_addresses_of_tls_speak_it() -> None:
    settings = ServeSettings(bind=("a:1", "/b"), tls_bind=("a:2",), tls_certificate="c.pem", tls_min_version="1.3")
    clear, unix, secure = binds(settings, [3, 4, 5], Path("/run"))
    assert (clear, unix) == ("fd@3", "fd@4")
    assert secure == "fd@5 ssl crt /run/tls.pem alpn h2,http/1.1 ssl-min-ver TLSv1.3"
    several = binds(settings, [3, 4, 5], Path("/run"), 2)[2]
    assert several.startswith("fd@5 ssl crt /run/tls.pem crt /run/tls1.pem ")


def test_a_larger_head_needs_a_larger_buffer() -> None:
    assert "tune.bufsize 33024" in requests.global_lines(ALL)
    assert not [line for line in requests.global_lines(Trust()) if "bufsize" in line]


@pytest.mark.system
@pytest.mark.parametrize("trust", [Trust(), ALL], ids=["default", "all"])
def test_haproxy_accepts_it_without_a_warning(tmp_path: Path, trust: Trust) -> None:
    (tmp_path / "haproxy.cfg").write_text(configuration(site(tmp_path, LANES, trust)))
    command = [find("haproxy", name="HAProxy"), "-c", "-f", str(tmp_path / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr


def test_a_pace_counts_waiting_and_gives_time_for_bytes_but_none_in_advance() -> None:
    pace = Pace(10.0, 100)
    assert pace.left_s == 10.0
    pace.took(1, 9.0)
    assert pace.left_s == pytest.approx(1.01)
    pace.took(1, 2.0)
    assert pace.left_s < 0
    fast = Pace(10.0, 100)
    fast.took(100_000, 9.0)
    assert fast.left_s == pytest.approx(10.0)
    fast.took(1, 9.0)
    fast.took(1, 9.0)
    assert fast.left_s < 0, "what was fast before does not count"
    endless = Pace(10.0, 0)
    endless.took(1, 1e9)
    assert endless.left_s == 10.0


@pytest.mark.parametrize("how", ["read", "pieces", "lines"])
@pytest.mark.parametrize(("size", "status"), [(10, "200 OK"), (11, "413 Content Too Large")])
def test_a_chunked_wsgi_body_has_a_bound(how: str, size: int, status: str) -> None:
    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        body = environ["wsgi.input"]
        try:
            read = {"read": body.read, "pieces": lambda: b"".join(iter(lambda: body.read(3), b"")),
                    "lines": lambda: b"".join(body)}[how]()  # fmt: skip
            start_response("200 OK", [])
        except OSError:
            read = b""
            start_response("500 Internal Server Error", [])
        return [read]

    told: list[str] = []
    environ = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input": io.BytesIO(b"ab\n" * 3 + b"c" * (size - 9))}
    bounded = bodies.wsgi(application, Bounds(most_bytes=10))
    (read,) = bounded(environ, lambda status, headers, exc_info=None: told.append(status))
    assert told == [status]
    assert len(read) == (size if size <= 10 else 0)


class Client:
    """Sends pieces of a body to an ASGI application, and nothing more after them."""

    def __init__(self, *pieces: bytes, ends: bool = True) -> None:
        self._events = [{"type": "http.request", "body": one, "more_body": True} for one in pieces]
        if ends:
            self._events[-1]["more_body"] = False
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if not self._events:
            await asyncio.Event().wait()
        return self._events.pop(0)

    async def send(self, event: dict[str, Any]) -> None:
        self.sent.append(event)

    def run(self, bounds: Bounds) -> list[str]:
        """What an application that reads to the end receives; it answers 200."""
        received = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            while True:
                event = await receive()
                received.append(event["type"])
                if not event.get("more_body"):
                    break
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        scope = {"type": "http", "headers": [(b"transfer-encoding", b"chunked")]}
        asyncio.run(Asgi(application, bounds)(scope, self.receive, self.send))
        return received

    @property
    def status(self) -> list[int]:
        return [one["status"] for one in self.sent if "status" in one]


def test_an_asgi_body_within_its_bounds_is_passed_on() -> None:
    client = Client(b"12345", b"67890")
    assert client.run(Bounds(most_bytes=10, timeout_s=30)) == ["http.request"] * 2
    assert client.status == [200]


def test_an_asgi_body_that_is_too_long_is_answered_and_the_client_is_gone() -> None:
    client = Client(b"12345", b"678901")
    assert client.run(Bounds(most_bytes=10)) == ["http.request", "http.disconnect"]
    assert client.status == [413]


def test_an_asgi_body_that_stops_is_answered_and_the_client_is_gone() -> None:
    client = Client(b"12345", ends=False)
    assert client.run(Bounds(timeout_s=0.01)) == ["http.request", "http.disconnect"]
    assert client.status == [408]


# --- The corpus itself: large enough, each message once, and no reading in which a hidden request is one.


def test_the_corpus_has_every_message_once_and_hides_what_is_hidden() -> None:
    corpus = list(messages())
    assert len(corpus) >= 400
    assert len({one.name for one in corpus}) == len({one.sent for one in corpus}) == len(corpus)
    for one in corpus:
        assert one.readings
        assert not [request for reading in one.readings for request in reading if "hidden" in request[1]], one.name
        assert all(LAST not in reading[:-1] for reading in one.readings), one.name
