"""Who the client is, with proxies before us, and TLS, HTTP/2 and WebSockets to clients."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import httpx
import pytest
from tests.serve.served import APPS, Served, until
from tests.serve.wire import log, records, talk

from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

SETTINGS = """
workers = 1
at_once = 2
trusted_proxies = ["127.0.0.1", "10.0.0.0/8", "unix"]
request_id_header = "x-request-id"
access_log = "stdout"
client_connections = 3
tls_bind = ["127.0.0.1:{tls}"]
tls_certificate = "{folder}/certificate.pem"
tls_key = "{folder}/key.pem"
tls_min_version = "1.3"
"""
REDIRECTED = """
workers = 1
at_once = 2
health_path = "/healthz"
trusted_proxies = ["127.0.0.1"]
access_log = "{folder}/log"
body_first = false
tls_redirect = true
tls_bind = ["127.0.0.1:{tls}"]
tls_certificate = "{folder}/certificate.pem"
tls_key = "{folder}/key.pem"
"""
STRANGER = "127.0.0.2"


class Trusting(Served):
    """With an address for TLS and a Unix socket."""

    def __init__(self, folder: Path) -> None:
        self.tls = child.free_port()
        self.unix = folder / "front"
        certificate(folder, "one")
        (folder / "seen.py").write_bytes((APPS / "seen.py").read_bytes())
        settings = SETTINGS.format(tls=self.tls, folder=folder)
        super().__init__(folder, "seen:asgi", settings, "--kind", "asgi", also=str(self.unix))

    def seen(self, *lines: str, source: str = "127.0.0.1") -> tuple[list[str], dict[str, str]]:
        """Client (address, scheme, root) and headers of a request with these header lines, as the worker sees them."""
        head = "\r\n".join(["GET / HTTP/1.1", "Host: a", "Connection: close", *lines, "", ""]).encode()
        before = len(records(self))
        received = talk(self.port, head, source=source)
        assert b" 200 " in received.split(b"\r\n")[0], received
        (one,) = records(self)[before:]
        return one["client"], one["headers"]

    def name(self) -> str:
        """Of the certificate that a client gets."""
        context = trusting(self.folder / "certificate.pem")
        with socket.create_connection(("127.0.0.1", self.tls), timeout=30, source_address=(STRANGER, 0)) as sock:
            with contextlib.suppress(ssl.SSLError), context.wrap_socket(sock) as tls:
                return str(re.findall(r"'commonName', '(\w+)'", str(tls.getpeercert()))[0])
        return ""


def certificate(folder: Path, name: str) -> None:
    """Make a key and a certificate for it."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", str(folder / "key.new"), "-out", str(folder / "certificate.new")]
    command += ["-days", "2", "-subj", f"/CN={name}", *files]
    subprocess.run(command, check=True, capture_output=True)
    for file in ("key", "certificate"):
        (folder / f"{file}.new").replace(folder / f"{file}.pem")


def trusting(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(certificate)
    return context


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusting]:
    trusting_ = Trusting(tmp_path_factory.mktemp("served"))
    with trusting_:
        yield trusting_


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("1.2.3.4", "1.2.3.4"), ("6.6.6.6, 1.2.3.4", "1.2.3.4"), ("1.2.3.4:5678", "1.2.3.4"),
        ("6.6.6.6, 1.2.3.4, 10.0.0.9", "1.2.3.4"), ("6.6.6.6, unknown, 10.0.0.9", "10.0.0.9"),
        ("6.6.6.6, unknown", "127.0.0.1"), ("", "127.0.0.1"),
        ("2001:db8::1", "2001:db8::1"), ("6.6.6.6\r\nX-Forwarded-For: 1.2.3.4", "1.2.3.4"),
        ("1.2.3.4, 10.0.0.6, 10.0.0.5, 10.0.0.4, 10.0.0.3, 10.0.0.2", "10.0.0.6"),
    ],
)  # fmt: skip
def test_behind_trusted_proxies_the_client_is_the_last_address_that_is_none_of_theirs(
    served: Trusting, forwarded: str, client: str
) -> None:
    (address, scheme, _), headers = served.seen(f"X-Forwarded-For: {forwarded}")
    assert (address, scheme, headers["x-forwarded-for"]) == (client, "http", client)
    logged = headers["x-request-id"]
    until(lambda: {line["id"]: line["client"] for line in log(served)}.get(logged) == client)


def test_a_trusted_proxy_tells_scheme_and_host_and_keeps_its_request_id(served: Trusting) -> None:
    lines = ["X-Forwarded-Proto: https", "X-Forwarded-Host: shop", "X-Request-Id: abc-1", "Forwarded: for=6.6.6.6"]
    (_, scheme, _), headers = served.seen("X-Forwarded-For: 1.2.3.4", *lines)
    assert (scheme, headers["x-forwarded-host"], headers["x-request-id"]) == ("https", "shop", "abc-1")
    assert "forwarded" not in headers
    assert served.seen("X-Request-Id: a b")[1]["x-request-id"] != "a b"
    assert served.seen("X-Forwarded-Proto: https, http")[0][1] == "http"


def test_a_stranger_forges_nothing(served: Trusting) -> None:
    names = """X-Forwarded-For X-Forwarded-Proto X-Forwarded-Host X-Forwarded-Port X-Forwarded-Ssl X-Scheme X-Real-IP
        True-Client-IP CF-Connecting-IP X-Original-URL X-Script-Name Front-End-Https X-Request-Id X-Greenlane-Lane
        X_Forwarded_For SCRIPT_NAME""".split()
    lines = [f"{name}: 6.6.6.6" for name in names]
    (address, scheme, root), headers = served.seen(*lines, "Forwarded: for=6.6.6.6;proto=https", source=STRANGER)
    assert (address, scheme, root) == (STRANGER, "http", "")
    assert not [value for value in headers.values() if "6.6.6.6" in value]


def test_one_kept_connection_of_a_proxy_carries_many_clients(served: Trusting) -> None:
    before = len(records(served))
    with contextlib.closing(served.connection()) as connection:
        for headers in ({"X-Forwarded-For": "1.1.1.1"}, {"X-Forwarded-For": "2.2.2.2"}, {}):
            connection.request("GET", "/", headers=headers)
            connection.getresponse().read()
    clients = [one["client"][0] for one in records(served)[before:]]
    assert clients == ["1.1.1.1", "2.2.2.2", "127.0.0.1"]


def test_a_proxy_on_a_unix_socket_is_trusted_when_it_is_named(served: Trusting) -> None:
    before = len(records(served))
    for headers in ({"X-Forwarded-For": "6.6.6.6, 1.1.1.1", "X-Forwarded-Proto": "https"}, {}):
        connection = http.client.HTTPConnection("a", timeout=30)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(served.unix))
            connection.sock = sock
            connection.request("GET", "/", headers=headers)
            assert connection.getresponse().status == 200
    clients = [one["client"][:2] for one in records(served)[before:]]
    assert clients[0] == ["1.1.1.1", "https"]
    assert clients[1][1] == "http"


def test_a_client_has_so_many_connections_and_a_proxy_has_more(served: Trusting) -> None:
    for source, answered in ((STRANGER, 3), ("127.0.0.1", 5)):
        with contextlib.ExitStack() as stack:
            got = []
            for _ in range(5):
                with contextlib.suppress(ConnectionError):  # refused, the kernel has said yes before
                    sock = socket.create_connection(("127.0.0.1", served.port), timeout=30, source_address=(source, 0))
                    stack.enter_context(sock)
                    sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                    got.append(b" 200 " in sock.recv(65536))
            assert got.count(True) == answered


@pytest.mark.gate
def test_http2_over_tls_and_in_clear_for_who_begins_with_it(served: Trusting) -> None:
    context = trusting(served.folder / "certificate.pem")
    before = len(records(served))
    transport = httpx.HTTPTransport(verify=context, http2=True, local_address=STRANGER)
    with httpx.Client(transport=transport) as client:
        url, forged = f"https://127.0.0.1:{served.tls}/two?q", {"X-Forwarded-For": "1.1.1.1"}
        answer = client.post(url, content=b"body", headers=forged)
        assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
    with httpx.Client(http1=False, http2=True) as client:
        assert client.get(f"http://127.0.0.1:{served.port}/clear").http_version == "HTTP/2"
    one, two = records(served)[before:]
    assert (one["method"], one["target"], one["body"]) == ("POST", "/two?q", "body")
    assert one["client"] == [STRANGER, "https", ""]
    assert (two["target"], two["client"][1]) == ("/clear", "http")


def test_websockets_over_both_and_they_take_no_place(served: Trusting) -> None:
    context = trusting(served.folder / "certificate.pem")
    urls = [f"ws://127.0.0.1:{served.port}/ws", f"wss://127.0.0.1:{served.tls}/ws"] * 2

    async def spoken() -> list[str]:
        said = []
        async with aiohttp.ClientSession() as session, contextlib.AsyncExitStack() as stack:
            for url in urls:
                socket_ = await stack.enter_async_context(session.ws_connect(url, ssl=context))
                said.append(await socket_.receive_str())
                await socket_.send_str("hello")
                assert await socket_.receive_str() == "hello"
            async with session.get(f"http://127.0.0.1:{served.port}/beside") as answer:  # 4 are more than at_once
                assert answer.status == 200
            with pytest.raises(aiohttp.WSServerHandshakeError):
                await session.ws_connect(f"ws://127.0.0.1:{served.port}/refused")
        return said

    assert [one.split()[:2] for one in asyncio.run(spoken())] == [["127.0.0.1", "ws"], ["127.0.0.1", "wss"]] * 2


def test_an_older_tls_version_than_the_settings_allow_is_refused(served: Trusting) -> None:
    context = trusting(served.folder / "certificate.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", served.tls), timeout=30) as sock:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(sock)


def test_a_renewed_certificate_is_taken_up_and_a_broken_one_is_not(served: Trusting) -> None:
    assert served.name() == "one"
    front = served.front()
    certificate(served.folder, "two")
    served.process.signal(signal.SIGHUP)  # else it is looked at every 10 s
    until(lambda: served.name() == "two")
    kept = (served.folder / "certificate.pem").read_text()
    (served.folder / "certificate.pem").write_text(kept[:300])
    served.process.signal(signal.SIGHUP)
    served.process.wait_output(r"not re\w+: .*without a passphrase")
    (served.folder / "certificate.pem").write_text(kept)
    assert served.name() == "two"
    assert served.front() == front


def test_each_name_gets_its_certificate(tmp_path: Path) -> None:
    """With a log in the combined form."""
    names, tls = ("a.test", "b.test"), child.free_port()
    (tmp_path / "certificates").mkdir()
    for name in names:
        certificate(tmp_path, name)
        both = (tmp_path / "certificate.pem").read_text() + (tmp_path / "key.pem").read_text()
        (tmp_path / "certificates" / f"{name}.pem").write_text(both)
    settings = (
        f'workers = 1\naccess_log = "stdout"\naccess_log_format = "combined"\n'
        f'tls_bind = ["127.0.0.1:{tls}"]\ntls_certificate = "{tmp_path}/certificates"\n'
    )
    head = b'GET /x?y=1 HTTP/1.1\r\nHost: a\r\nReferer: http://r/\r\nUser-Agent: u"1\r\nConnection: close\r\n\r\n'

    def asked(server: str) -> tuple[str, bytes]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", tls), timeout=30) as plain:
            with context.wrap_socket(plain, server_hostname=server) as sock:
                sock.sendall(head)
                answer = b"".join(iter(lambda: sock.recv(65536), b""))
                shown = x509_name(sock.getpeercert(binary_form=True) or b"")
        return shown, answer.lower()

    with Served(tmp_path, "seen:wsgi", settings, "--kind", "wsgi") as served:
        assert [asked(name)[0] for name in (*names, "c.test")] == [*names, names[0]]
        talk(served.port, head)
        line = r'127\.0\.0\.1 - - \[\d+/\w+/\d+:[\d:]+ \+0000\] "GET /x\?y=1 HTTP/1\.1" 200 \d+ "http://r/" "u\\"1"'
        served.process.wait_output(line)


def x509_name(certificate_: bytes) -> str:
    """The common name in our certificate."""
    return next(name for name in ("a.test", "b.test") if name.encode() in certificate_)


def test_clear_requests_are_sent_to_https_and_the_log_to_syslog(tmp_path: Path) -> None:
    """With `body_first = false`: a worker has a request with its head, and answers before the body ends."""
    certificate(tmp_path, "one")
    settings = REDIRECTED.format(tls=(tls := child.free_port()), folder=tmp_path)
    head = b"%s HTTP/1.1\r\nHost: shop:80\r\nConnection: close\r\n\r\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as syslog:
        syslog.bind(str(tmp_path / "log"))
        syslog.settimeout(30)
        with Served(tmp_path, "seen:asgi", settings, "--kind", "asgi") as served:
            answer = talk(served.port, head % b"POST /a?b=c").decode().lower().split("\r\n")
            assert answer[0].split()[1] == "308"
            assert "location: https://shop:80/a?b=c" in answer
            assert b" 200 " in talk(served.port, head % b"GET /healthz").split(b"\r\n")[0]
            proxied = head.replace(b"Connection", b"X-Forwarded-Proto: https\r\nConnection") % b"GET /p"
            assert b" 200 " in talk(served.port, proxied).split(b"\r\n")[0]
            pieces = (proxied.replace(b"GET", b"PUT").replace(b"Host", b"Content-Length: 4\r\nHost"), b"bo", b"dy")
            talk(served.port, *pieces, pause_s=0.05)
            assert [one["body"] for one in records(served)] == ["", "body"]  # from head and body in several writes
            context = trusting(tmp_path / "certificate.pem")
            with socket.create_connection(("127.0.0.1", tls), timeout=30) as plain:
                with context.wrap_socket(plain) as sock:
                    sock.sendall(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
                    assert b" 200 " in sock.recv(65536).split(b"\r\n")[0]
            lines = [syslog.recv(65536) for _ in range(5)]
    logged = [json.loads(line[line.index(b"{") :]) for line in lines]
    assert [(one["status"], one["target"]) for one in logged] == [
        (308, "/a?b=c"), (200, "/healthz"), (200, "/p"), (200, "/p"), (200, "/early"),
    ]  # fmt: skip
    assert all(re.match(rb"<134>", line) for line in lines)  # local0, informational


def test_the_proxy_protocol_is_read_from_trusted_proxies_only(tmp_path: Path) -> None:
    settings = 'workers = 1\nproxy_protocol = true\ntrusted_proxies = ["127.0.0.1"]\n'
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\nConnection: close\r\n\r\n"
    # Version 2: signature, version and command, IPv4 over TCP, 12 bytes of addresses and ports.
    binary = b"\r\n\r\n\0\r\nQUIT\n" + b"\x21\x11\x00\x0c" + bytes([2, 2, 2, 2, 127, 0, 0, 1]) + b"\x12\x34\x00\x50"
    with Served(tmp_path, "seen:wsgi", settings, "--kind", "wsgi") as served:
        talk(served.port, b"PROXY TCP4 1.1.1.1 127.0.0.1 1234 80\r\n" + head)
        talk(served.port, binary + head)
        without = talk(served.port, head)
        stranger = talk(served.port, b"PROXY TCP4 1.1.1.1 127.0.0.1 1234 80\r\n" + head, source=STRANGER)
        talk(served.port, head, source=STRANGER)
        assert [one["client"][0] for one in records(served)] == ["1.1.1.1", "2.2.2.2", STRANGER]
        assert b" 200 " not in without + stranger
