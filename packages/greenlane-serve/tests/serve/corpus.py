"""Messages that two parsers may read in two ways, with all readings that are allowed (RFC 9110, RFC 9112).

A message is what a client sends on a new connection, followed by `END`: a request that closes. What a worker may see is
one of the message's readings; each is a sequence of (method, target, body), `LAST` for the request END.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

Request = tuple[str, str, bytes]
Reading = tuple[Request, ...]

END = b"GET /end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
LAST: Request = ("GET", "/end", b"")
NOTHING: Reading = ()
# Refused, and the connection goes on.
ONLY_LAST: Reading = (LAST,)
REFUSED = (NOTHING, ONLY_LAST)
# A body that broke off after its request had begun.
BROKEN: Reading = (("POST", "/", b"!"),)
# What a smuggler hides. No reading of any message has it.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass(frozen=True)
class Message:
    """One of the corpus."""

    name: str
    sent: bytes
    readings: tuple[Reading, ...]


def messages() -> Iterator[Message]:
    """The corpus, in the order of RFC 9112's sections."""
    yield from _lines()
    yield from _targets()
    yield from _fields()
    yield from _lengths()
    yield from _codings()
    yield from _chunks()
    yield from _connections()
    yield from _limits()
    yield from _octets()
    yield from _versions()
    yield from _hosts()
    yield from _numbers()
    yield from _conflicts()
    yield from _folds()
    yield from _extensions()
    yield from _trailers()
    yield from _sequences()


def _get(lines: bytes = b"", *, target: bytes = b"/", first: bytes = b"") -> bytes:
    return (first or b"GET " + target + b" HTTP/1.1\r\n") + b"Host: a\r\n" + lines + b"\r\n"


def _post(lines: bytes, body: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: a\r\n" + lines + b"\r\n" + body


def _chunked(body: bytes, lines: bytes = b"") -> bytes:
    return _post(b"Transfer-Encoding: chunked\r\n" + lines, body)


def _seen(target: str = "/") -> Reading:
    return (("GET", target, b""), LAST)


def _took(body: bytes) -> Reading:
    return (("POST", "/", body), LAST)


def _lines() -> Iterator[Message]:
    """§2.2, §3: message, request line."""
    plain = _get()
    yield Message("plain", plain, (_seen(),))
    yield Message("empty line before", b"\r\n" + plain, (_seen(), NOTHING))
    yield Message("two empty lines before", b"\r\n\r\n" + plain, (_seen(), NOTHING))
    yield Message("bare LF", plain.replace(b"\r\n", b"\n"), (_seen(), NOTHING))
    yield Message("bare LF after the request line", plain.replace(b"\r\n", b"\n", 1), (_seen(), NOTHING))
    yield Message("bare LF at the end of the head", plain[:-2] + b"\n", (_seen(), NOTHING))
    yield Message("bare CR for a line break", plain.replace(b"\r\n", b"\r", 1), (NOTHING,))
    yield Message("CR CR LF", plain.replace(b"\r\n", b"\r\r\n", 1), (NOTHING,))
    yield Message("bare CR in a value", _get(b"X-A: a\rX-B: b\r\n"), (_seen(), NOTHING))
    yield Message("two spaces in the request line", _get(first=b"GET  / HTTP/1.1\r\n"), (_seen(), NOTHING))
    yield Message("tab in the request line", _get(first=b"GET\t/\tHTTP/1.1\r\n"), (_seen(), NOTHING))
    yield Message("space after the version", _get(first=b"GET / HTTP/1.1 \r\n"), (_seen(), NOTHING))
    yield Message("space before the method", _get(first=b" GET / HTTP/1.1\r\n"), (NOTHING,))
    yield Message("HTTP/0.9", b"GET /\r\n", (NOTHING,))
    yield Message("HTTP/1.2", _get(first=b"GET / HTTP/1.2\r\n"), (_seen(), NOTHING))
    yield Message("HTTP/2.0 in words", _get(first=b"GET / HTTP/2.0\r\n"), (_seen(), NOTHING))
    yield Message("HTTP/11", _get(first=b"GET / HTTP/11\r\n"), (NOTHING,))
    yield Message("http/1.1", _get(first=b"GET / http/1.1\r\n"), (NOTHING,))
    yield Message("method in small letters", _get(first=b"get / HTTP/1.1\r\n"), (*REFUSED, (("get", "/", b""), LAST)))
    yield Message("method that is no token", _get(first=b"GE(T / HTTP/1.1\r\n"), (NOTHING,))
    yield Message("NUL in the request line", _get(target=b"/\0"), (NOTHING,))
    yield Message("NUL before the request line", b"\0" + plain, (NOTHING,))


def _targets() -> Iterator[Message]:
    """§3.2: forms of the target, and Host."""
    absolute = b"http://a/there?q"
    yield Message("absolute form", _get(target=absolute), (_seen("/there?q"), *REFUSED))
    yield Message("absolute form, another host", _get(target=b"http://b/there"), REFUSED)
    yield Message("absolute form without Host", b"GET " + absolute + b" HTTP/1.1\r\n\r\n", REFUSED)
    yield Message("absolute form without a path", _get(target=b"http://a"), (_seen("/"), *REFUSED))
    yield Message("authority form", _get(target=b"a:80"), REFUSED)
    yield Message("CONNECT and a hidden request", b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n" + HIDDEN, (NOTHING,))
    star = b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"
    yield Message("asterisk form", star, ((("OPTIONS", "*", b""), LAST), *REFUSED))
    yield Message("asterisk form of GET", _get(target=b"*"), REFUSED)
    yield Message("target without a slash", _get(target=b"there"), REFUSED)
    yield Message("target with a fragment", _get(target=b"/a#b"), REFUSED)
    yield Message("target with a space", _get(target=b"/a b"), (NOTHING,))
    yield Message("target beyond ASCII", _get(target=b"/\xc3\xa9"), REFUSED)
    yield Message("target with quotes", _get(target=b'/"\\?"\\'), (_seen('/"\\?"\\'), *REFUSED))
    yield Message("target with two slashes", _get(target=b"//b/c"), (_seen("//b/c"),))
    yield Message("encoded line break", _get(target=b"/%0d%0aX-A:%20b"), (_seen("/\r\nX-A: b"),))
    yield Message("no Host", b"GET / HTTP/1.1\r\n\r\n", REFUSED)
    yield Message("empty Host", b"GET / HTTP/1.1\r\nHost:\r\n\r\n", (_seen(), *REFUSED))
    yield Message("Host twice, the same", _get(b"Host: a\r\n"), (_seen(), *REFUSED))
    yield Message("Host twice, two hosts", _get(b"Host: b\r\n"), REFUSED)
    yield Message("Host as a list", b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", (_seen(), *REFUSED))


def _fields() -> Iterator[Message]:
    """§5: header fields."""
    yield Message("space before the colon", _get(b"X-A : a\r\n"), (NOTHING,))
    yield Message("tab before the colon", _get(b"X-A\t: a\r\n"), (NOTHING,))
    hidden = b"Content-Length : %d\r\n" % len(HIDDEN)
    yield Message("Content-Length, space before the colon", _post(hidden, HIDDEN), (NOTHING,))
    chunked = b"Transfer-Encoding : chunked\r\n"
    yield Message("Transfer-Encoding, space before the colon", _post(chunked, b"0\r\n\r\n"), (NOTHING,))
    yield Message("no colon", _get(b"X-A\r\n"), (NOTHING,))
    yield Message("empty name", _get(b": a\r\n"), (NOTHING,))
    yield Message("name that is no token", _get(b"X(A: a\r\n"), (NOTHING,))
    yield Message("NUL in a name", _get(b"X\0A: a\r\n"), (NOTHING,))
    yield Message("NUL in a value", _get(b"X-A: a\0b\r\n"), REFUSED)
    yield Message("control character in a value", _get(b"X-A: a\x01b\r\n"), (_seen(), *REFUSED))
    yield Message("bytes beyond ASCII in a value", _get(b"X-A: \xff\xfe\r\n"), (_seen(), *REFUSED))
    yield Message("folded line", _get(b"X-A: a\r\n b\r\n"), (_seen(), NOTHING))
    fold = b"X-A: a\r\n Content-Length: %d\r\n" % len(HIDDEN)
    yield Message("Content-Length in a folded line", _post(fold, b""), (_took(b""), NOTHING))
    yield Message("folded Transfer-Encoding", _post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"),
                  (_took(b""), *REFUSED))  # fmt: skip
    yield Message("folded before the first field", b"GET / HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n", (NOTHING,))
    # Two lines that are one name to a server that joins them.
    yield Message("empty value, then a name", _get(b"X-Greenlane:\r\n-Lane: forged\r\n"), (_seen(), *REFUSED))
    yield Message("underscore in a name", _get(b"X_Request_Id: forged\r\nSCRIPT_NAME: /forged\r\n"), (_seen(),))


def _lengths() -> Iterator[Message]:
    """§6.2, §6.3: Content-Length."""
    five = b"hello"
    yield Message("length", _post(b"Content-Length: 5\r\n", five), (_took(five),))
    yield Message("length of nothing", _post(b"Content-Length: 0\r\n", b""), (_took(b""),))
    same = b"Content-Length: 5\r\nContent-Length: 5\r\n"
    yield Message("length twice, the same", _post(same, five), (_took(five), NOTHING))
    yield Message("length as a list, the same", _post(b"Content-Length: 5, 5\r\n", five), (_took(five), NOTHING))
    other = b"Content-Length: 5\r\nContent-Length: %d\r\n" % (5 + len(HIDDEN))
    yield Message("length twice, two lengths", _post(other, five + HIDDEN), (NOTHING,))
    yield Message("length as a list, two lengths", _post(b"Content-Length: 5, 6\r\n", five), (NOTHING,))
    for name, value in (
        ("sign", b"+5"), ("minus", b"-5"), ("hex", b"0x5"), ("underscore", b"5_0"), ("space", b"5 5"),
        ("nothing", b""), ("comma", b"5,"), ("point", b"5.0"), ("digits beyond ASCII", b"\xb2"),
        ("more than 64 bits", b"18446744073709551621"), ("more than 63 bits", b"9223372036854775813"),
    ):  # fmt: skip
        yield Message(f"length with {name}", _post(b"Content-Length: " + value + b"\r\n", five),
                      (NOTHING, *((_took(five),) if name == "comma" else ())))  # fmt: skip
    yield Message("length with zeros before", _post(b"Content-Length: 0005\r\n", five), (_took(five), NOTHING))
    yield Message("length of GET", _get(b"Content-Length: 5\r\n") + five, ((("GET", "/", five), LAST), *REFUSED))
    hidden = b"Content-Length: %d\r\n" % len(HIDDEN)
    yield Message("GET with a request as its body", _get(hidden) + HIDDEN, ((("GET", "/", HIDDEN), LAST), *REFUSED))


def _codings() -> Iterator[Message]:
    """§6.1: Transfer-Encoding."""
    five = b"5\r\nhello\r\n0\r\n\r\n"
    yield Message("chunked", _chunked(five), (_took(b"hello"),))
    both = b"Content-Length: %d\r\n" % (5 + len(HIDDEN))
    yield Message("chunked and a longer length", _chunked(five, both), (_took(b"hello"), _took(b"hello")[:1], NOTHING))
    small = b"Content-Length: 4\r\n"
    shorter = _chunked(five, small)
    yield Message("chunked and a shorter length", shorter, (_took(b"hello"), _took(b"hello")[:1], NOTHING))
    first = _post(small + b"Transfer-Encoding: chunked\r\n", five)
    yield Message("a length before chunked", first, (_took(b"hello"), _took(b"hello")[:1], NOTHING))
    for name, value in (
        ("gzip", b"gzip"), ("identity", b"identity"), ("chunked before gzip", b"chunked, gzip"),
        ("gzip, chunked", b"gzip, chunked"), ("chunked twice", b"chunked, chunked"), ("xchunked", b"xchunked"),
        ("chunked in quotes", b'"chunked"'), ("parameter", b"chunked;a=b"), ("nothing", b""),
        ("vertical tab", b"\x0bchunked"), ("NUL", b"chunked\0"), ("comma before", b",chunked"),
    ):  # fmt: skip
        allowed = (_took(b"hello"),) if name == "comma before" else ()
        coded = _post(b"Transfer-Encoding: " + value + b"\r\n", five)
        yield Message(f"coding: {name}", coded, (*REFUSED, *allowed))
    yield Message("coding in capitals", _post(b"Transfer-Encoding: CHUNKED\r\n", five), (_took(b"hello"),))
    yield Message("coding twice", _chunked(five, b"Transfer-Encoding: chunked\r\n"), REFUSED)
    yield Message("coding twice, gzip last", _chunked(five, b"Transfer-Encoding: gzip\r\n"), REFUSED)
    old = b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + five
    yield Message("chunked in HTTP/1.0", old, REFUSED)
    yield Message("chunked GET", _get(b"Transfer-Encoding: chunked\r\n") + five,
                  ((("GET", "/", b"hello"), LAST), *REFUSED))  # fmt: skip


def _chunks() -> Iterator[Message]:
    """§7.1: chunks, extensions, trailers."""
    end = b"0\r\n\r\n"
    hello = _took(b"hello")
    for name, chunk in (
        ("extension", b"5;a=b\r\nhello\r\n"), ("quoted extension", b'5;a="b;c"\r\nhello\r\n'),
        ("space before the extension", b"5 ;a\r\nhello\r\n"), ("zeros before the size", b"0005\r\nhello\r\n"),
    ):  # fmt: skip
        yield Message(f"chunk: {name}", _chunked(chunk + end), (hello, NOTHING))
    for name, chunk in (
        ("bare LF after the size", b"5\nhello\r\n"), ("bare LF after the data", b"5\r\nhello\n"),
        ("bare LF in an extension", b"5;\nhello\r\n"), ("bare CR after the size", b"5\rhello\r\n"),
        ("space before the size", b" 5\r\nhello\r\n"), ("space after the size", b"5 \r\nhello\r\n"),
        ("sign", b"+5\r\nhello\r\n"), ("hex", b"0x5\r\nhello\r\n"), ("underscore", b"5_\r\nhello\r\n"),
        ("too short", b"4\r\nhello\r\n"), ("too long", b"6\r\nhello\r\n"), ("no size", b"\r\nhello\r\n"),
        ("more than 32 bits", b"100000005\r\nhello\r\n"), ("more than 64 bits", b"10000000000000005\r\nhello\r\n"),
        ("NUL after the size", b"5\0\r\nhello\r\n"), ("extension without an end", b"5;" + b"a" * 40_000),
    ):  # fmt: skip
        # A worker may have begun with a body that then breaks; what is too long by one has taken in the CR.
        readings = (NOTHING, (("POST", "/", b"!"),), _took(b"hello\r") if name == "too long" else hello)
        yield Message(f"chunk: {name}", _chunked(chunk + end), readings)
    yield Message("last chunk of zeros", _chunked(b"5\r\nhello\r\n000\r\n\r\n"), (hello, NOTHING))
    yield Message("trailer", _chunked(b"5\r\nhello\r\n0\r\nX-A: a\r\n\r\n"), (hello, NOTHING))
    forged = b"X-Forwarded-Proto: https\r\nX-Request-Id: forged\r\nX-Greenlane-Lane: forged\r\nCookie: forged\r\n"
    yield Message("trailer that forges", _chunked(b"5\r\nhello\r\n0\r\n" + forged + b"\r\n"), (hello, NOTHING))
    framing = b"Content-Length: 99\r\nTransfer-Encoding: gzip\r\nHost: b\r\n"
    broken = (("POST", "/", b"!"),)
    yield Message("trailer that frames", _chunked(b"5\r\nhello\r\n0\r\n" + framing + b"\r\n"), (hello, NOTHING, broken))
    yield Message("trailer that is none", _chunked(b"5\r\nhello\r\n0\r\nX A\r\n\r\n"), (hello, NOTHING, broken))
    yield Message("bare LF at the end", _chunked(b"5\r\nhello\r\n0\r\n\n"), (hello, NOTHING, broken))


def _connections() -> Iterator[Message]:
    """§9: persistence, pipelining, upgrades."""
    two = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
    yield Message("pipelined", two, ((("GET", "/1", b""), ("GET", "/2", b""), LAST),))
    mixed = _post(b"Content-Length: 5\r\n", b"hello") + _get(target=b"/2")
    yield Message("pipelined after a body", mixed, ((("POST", "/", b"hello"), ("GET", "/2", b""), LAST),))
    broken = _get(target=b"/1") + b"BROKEN\r\n\r\n"
    yield Message("pipelined before what is none", broken, ((("GET", "/1", b""),),))
    after = b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    yield Message("after close", after, ((("GET", "/1", b""),), (("GET", "/1", b""), LAST)))
    yield Message("HTTP/1.0", b"GET / HTTP/1.0\r\n\r\n", (_seen()[:1],))
    kept = b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"
    yield Message("HTTP/1.0 that keeps", kept, (_seen(), _seen()[:1]))
    yield Message("CRLF after a body", _post(b"Content-Length: 5\r\n", b"hello\r\n"), (_took(b"hello"),))
    for name, value in (("h2c", b"h2c"), ("unknown", b"wat"), ("list", b"h2c, websocket")):
        asks = _get(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: " + value + b"\r\nHTTP2-Settings: AAMAAABk\r\n")
        readings = (_seen(), *REFUSED, _seen()[:1])
        yield Message(f"upgrade: {name}", asks, readings)
    hidden = _post(b"Connection: Upgrade\r\nUpgrade: wat\r\nContent-Length: %d\r\n" % len(HIDDEN), HIDDEN)
    yield Message("upgrade with a body", hidden, (_took(HIDDEN), *REFUSED))
    names = _get(b"Connection: Host, X-Forwarded-For, X-Request-Id\r\n")
    yield Message("Connection that names fields", names, (_seen(),))
    expects = _post(b"Expect: 100-continue\r\nContent-Length: 5\r\n", b"hello")
    yield Message("Expect", expects, (_took(b"hello"),))
    yield Message("Expect something else", _post(b"Expect: wat\r\nContent-Length: 5\r\n", b"hello"),
                  (_took(b"hello"), *REFUSED))  # fmt: skip
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
    yield Message("HTTP/2 preface, then HTTP/1", preface, (NOTHING,))
    yield Message("TLS to a clear port", bytes.fromhex("16030100c8010000c40303"), (NOTHING,))


def _limits() -> Iterator[Message]:
    """Too much of anything."""
    yield Message("target over the limit", _get(target=b"/" + b"a" * 4000), REFUSED)
    yield Message("target over the buffer", _get(target=b"/" + b"a" * 20_000), (NOTHING,))
    yield Message("header over the buffer", _get(b"X-A: " + b"a" * 20_000 + b"\r\n"), (NOTHING,))
    yield Message("headers over the limit", _get(b"".join(b"X-%d: a\r\n" % one for one in range(101))), REFUSED)
    yield Message("headers far over the limit", _get(b"".join(b"X-%d: a\r\n" % one for one in range(900))), REFUSED)
    yield Message("as many headers as may be", _get(b"".join(b"X-%d: a\r\n" % one for one in range(99))), (_seen(),))
    yield Message("body over the limit", _post(b"Content-Length: 100001\r\n", b"a" * 100_001), REFUSED)
    big = b"a" * 100_000
    yield Message("body of the limit", _post(b"Content-Length: 100000\r\n", big), (_took(big),))
    # Half of a message, then the next: the rest never comes.
    yield Message("half a request line", b"GET /hal", (NOTHING,))
    yield Message("half a body", _post(b"Content-Length: 1000\r\n", b"half"), (NOTHING,))
    yield Message("half a chunk", _chunked(b"3e8\r\nhalf"), (NOTHING,))


# Kinds of http-garden's, which compares many servers: the same mistake in each place where it can be made.


def _octets() -> Iterator[Message]:
    """Octets that must not stand there: in a name, a value, the method, the target."""
    for octet in (*b'"(),/;<=>?@[\\]{}', 0x01, 0x0B, 0x0C, 0x1F, 0x7F, 0x80, 0x85, 0xA0, 0xFF):
        one = bytes([octet])
        yield Message(f"octet {octet:02x} in a name", _get(b"X-" + one + b"A: a\r\n"), REFUSED)
    for octet in (0x00, 0x01, 0x08, 0x0B, 0x0C, 0x1B, 0x7F, 0x80, 0x85, 0xA0, 0xFF):
        allowed = (_seen(), *REFUSED) if octet else REFUSED
        yield Message(f"octet {octet:02x} at the start of a value", _get(b"X-A:" + bytes([octet]) + b"a\r\n"), allowed)
    for octet in (0x0B, 0x0C, 0x1C, 0x85, 0xA0):
        gap = bytes([octet])
        yield Message(
            f"octet {octet:02x} for the first space", _get(first=b"GET" + gap + b"/ HTTP/1.1\r\n"), (NOTHING,)
        )
        yield Message(
            f"octet {octet:02x} for the second space", _get(first=b"GET /" + gap + b"HTTP/1.1\r\n"), (NOTHING,)
        )
        coded = _post(b"Transfer-Encoding:" + gap + b"chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n")
        yield Message(f"octet {octet:02x} before a coding", coded, REFUSED)
        length = _post(b"Content-Length:" + gap + b"5\r\n", b"hello")
        yield Message(f"octet {octet:02x} before a length", length, (*REFUSED, NOTHING))
    for octet in (0x01, 0x0B, 0x1F, 0x7F):
        yield Message(f"octet {octet:02x} in the target", _get(target=b"/a" + bytes([octet])), REFUSED)
    for octet in (0x80, 0xA0, 0xFF):
        yield Message(f"octet {octet:02x} in the target", _get(target=b"/a" + bytes([octet])), REFUSED)
    for name, target in (("NUL", b"/%00"), ("half an escape", b"/%4"), ("no escape", b"/%zz"), ("dots", b"/a/../b")):
        text = {"NUL": "/\0", "half an escape": "/%4", "no escape": "/%zz", "dots": "/a/../b"}[name]
        yield Message(f"target with {name}", _get(target=target), (_seen(text), _seen("/b"), *REFUSED))


def _versions() -> Iterator[Message]:
    """Versions that are none, and what lies below 1.0."""
    for version in (b"HTTP/1", b"HTTP/1.", b"HTTP/.1", b"HTTP/1.1.1", b"HTTP/01.1", b"HTTP/1.01", b"HTTP/+1.1",
                    b"HTTP/1,1", b"HTTPS/1.1", b"HTTP 1.1", b"HTTP/-1.1", b"HTTP/1.a", b"XTTP/1.1",
                    b"HTTP/1.1x"):  # fmt: skip
        yield Message(f"version {version.decode()}", _get(first=b"GET / " + version + b"\r\n"), REFUSED)
    for version in (b"HTTP/0.9", b"HTTP/3.0", b"HTTP/9.9"):
        yield Message(
            f"version {version.decode()}", _get(first=b"GET / " + version + b"\r\n"), (*REFUSED, _seen(), _seen()[:1])
        )
    yield Message("HTTP/0.9 without a line break", b"GET /\n", (NOTHING,))
    yield Message("a version alone", b"HTTP/1.1 200 OK\r\n\r\n", (NOTHING,))
    yield Message("four words in the request line", _get(first=b"GET / a HTTP/1.1\r\n"), REFUSED)


def _hosts() -> Iterator[Message]:
    """Host: what it may be, and that it is one."""
    for name, host in (("a port", b"a:80"), ("a number", b"127.0.0.1"), ("IPv6", b"[::1]:80"), ("a dot after", b"a."),
                       ("capitals", b"A"), ("an underscore", b"a_b")):  # fmt: skip
        yield Message(f"Host with {name}", b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", (_seen(), *REFUSED))
    for name, host in (("a user", b"u@a"), ("a slash", b"a/b"), ("a space", b"a b"), ("a port that is none", b"a:b"),
                       ("a high octet", b"\xe9"), ("a NUL", b"a\0b"), ("a question mark", b"a?b"),
                       ("a port that is too large", b"a:99999")):  # fmt: skip
        allowed = REFUSED if name == "a NUL" else (_seen(), *REFUSED)
        yield Message(f"Host with {name}", b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", allowed)
    for name, line in (("space before its colon", b"Host : a"), ("a fold", b"Host:\r\n a"), ("no colon", b"Host a")):
        allowed = (*REFUSED, *((_seen(),) if name == "a fold" else ()))
        yield Message(f"Host with {name}", b"GET / HTTP/1.1\r\n" + line + b"\r\n\r\n", allowed)
    for target in (b"http://u@a/", b"http://a:80/", b"HTTP://a/", b"https://a/", b"ftp://a/", b"http:///", b"http:/a",
                   b"://a/"):  # fmt: skip
        yield Message(f"absolute form {target.decode()}", _get(target=target), (_seen(), *REFUSED, _seen("/a")))
    yield Message("authority form of POST", b"POST a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", REFUSED)
    yield Message("asterisk form with a path", b"OPTIONS */a HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED)
    connect = b"CONNECT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
    yield Message("CONNECT with a path", connect + HIDDEN, (NOTHING,))


_WRONG_NUMBERS: Final = {
    "sign": b"+%s", "minus": b"-%s", "hex": b"0x%s", "octal": b"0o%s", "underscore before": b"_%s",
    "underscore after": b"%s_",
    "dot": b"%s.", "exponent": b"%se0", "letter": b"%sz", "semicolon": b"%s;", "quotes": b'"%s"', "NUL after": b"%s\0",
    "no-break space": b"\xa0%s", "full width": b"\xef\xbc\x95", "vertical tab": b"\x0b%s", "newline": b"\n%s",
}  # fmt: skip


def _numbers() -> Iterator[Message]:
    """Numbers as other languages write them: lengths and sizes."""
    for name, form in _WRONG_NUMBERS.items():
        five = form % b"5" if b"%s" in form else form
        lengths = (*REFUSED, _took(b"hello")) if name == "newline" else REFUSED
        if name not in ("sign", "minus", "hex"):  # they have come
            yield Message(f"number: length with {name}", _post(b"Content-Length: " + five + b"\r\n", b"hello"), lengths)
        sizes = (NOTHING, BROKEN, *((_took(b"hello"),) if name == "semicolon" else ()))
        if name not in ("sign", "hex", "underscore after", "NUL after", "semicolon"):
            yield Message(f"number: size with {name}", _chunked(five + b"\r\nhello\r\n0\r\n\r\n"), sizes)
    for name, size in (("17 digits", b"0" * 16 + b"5"), ("capital", b"00005")):
        yield Message(
            f"number: size of {name}", _chunked(size + b"\r\nhello\r\n0\r\n\r\n"), (_took(b"hello"), NOTHING, BROKEN)
        )
    yield Message("number: size in capitals", _chunked(b"A\r\nhellohello\r\n0\r\n\r\n"), (_took(b"hellohello"),))
    for size in (b"ffffffff", b"7fffffffffffffff", b"8000000000000000", b"ffffffffffffffff", b"fffffffffffffffff"):
        yield Message(f"number: size {size.decode()}", _chunked(size + b"\r\nhello\r\n0\r\n\r\n"), (NOTHING, BROKEN))


def _conflicts() -> Iterator[Message]:
    """A length and a coding, in both orders and versions, as they are written to be overlooked."""
    body = b"0\r\n\r\n"
    for name, line in (
        ("plain", b"Transfer-Encoding: chunked"), ("capitals", b"TRANSFER-ENCODING: Chunked"),
        ("tab", b"Transfer-Encoding:\tchunked"), ("space after", b"Transfer-Encoding: chunked "),
        ("list", b"Transfer-Encoding: identity, chunked"), ("quotes", b"Transfer-Encoding: 'chunked'"),
        ("cow", b"Transfer-Encoding: cow"), ("space in the name", b"Transfer -Encoding: chunked"),
        ("underscore", b"Transfer_Encoding: chunked"), ("prefix", b"X-Transfer-Encoding: chunked"),
        ("NUL", b"Transfer-Encoding: chunked\0"), ("bare CR", b"Transfer-Encoding: chunked\r"),
        ("line feed before", b"X: x\nTransfer-Encoding: chunked"), ("end of name", b"Transfer-Encoding\0: chunked"),
    ):  # fmt: skip
        length = b"Content-Length: %d" % (len(body) + len(HIDDEN))
        whole: tuple[Reading, ...] = (_took(body + HIDDEN),) if name in ("underscore", "prefix") else ()
        for order, lines in (("after", (length, line)), ("before", (line, length))):
            coded: tuple[Reading, ...] = (_took(b"")[:1], *REFUSED, *whole)
            yield Message(
                f"conflict: {name} {order} the length", _post(b"\r\n".join(lines) + b"\r\n", body + HIDDEN), coded
            )
    old = b"POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n"
    both = old + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + body + HIDDEN
    yield Message("conflict: in HTTP/1.0", both, REFUSED)
    for name, lines in (
        ("equal, three times", b"Content-Length: 5\r\n" * 3),
        ("an empty one first", b"Content-Length:\r\nContent-Length: 5\r\n"),
        ("an empty one last", b"Content-Length: 5\r\nContent-Length:\r\n"),
        ("zero first", b"Content-Length: 0\r\nContent-Length: 5\r\n"),
        ("with zeros", b"Content-Length: 5\r\nContent-Length: 05\r\n"),
        ("a list of two", b"Content-Length: 5,5\r\n"), ("a list with a sign", b"Content-Length: 5,+5\r\n"),
        ("in two cases", b"Content-Length: 5\r\ncontent-length: 6\r\n"),
    ):  # fmt: skip
        yield Message(f"lengths: {name}", _post(lines, b"hello"), (*REFUSED, _took(b"hello")))


def _folds() -> Iterator[Message]:
    """obs-fold, with what a server that does not join lines would read."""
    chunks = b"5\r\nhello\r\n0\r\n\r\n"
    for name, gap in (("space", b"\r\n "), ("tab", b"\r\n\t"), ("line feed", b"\n "), ("two", b"\r\n \r\n ")):
        yield Message(f"fold: a value, by {name}", _get(b"X-B: a" + gap + b"b\r\n"), (_seen(), *REFUSED))
        yield Message(
            f"fold: a length, by {name}",
            _post(b"Content-Length:" + gap + b"5\r\n", b"hello"),
            (_took(b"hello"), *REFUSED),
        )
        yield Message(
            f"fold: a coding, by {name}",
            _post(b"Transfer-Encoding:" + gap + b"chunked\r\n", chunks),
            (_took(b"hello"), *REFUSED),
        )
        hidden = _get(b"X-A: a" + gap + b"Transfer-Encoding: chunked\r\n")
        yield Message(f"fold: a coding in a value, by {name}", hidden, (_seen(), *REFUSED))
    yield Message("fold: at the end of the head", _get(b"X-A: a\r\n \r\n"), (_seen(), *REFUSED))
    yield Message("fold: a line of spaces", _get(b"   \r\n"), (_seen(), *REFUSED))


def _extensions() -> Iterator[Message]:
    """Chunk extensions: read over, or refused, never half."""
    for name, extension in (
        ("name", b";a"), ("value", b";b=a"), ("many", b";a=b" * 20), ("empty", b";"), ("two empty", b";;"),
        ("no semicolon", b" a"), ("equals sign", b"=a"), ("open quotes", b';a="'), ("quotes with CRLF", b';a="\r\n"'),
        ("high octets", b";\xff"), ("NUL", b";\0"), ("bare CR", b";a\rb"), ("tab", b"\t;a"), ("spaces", b"   "),
        ("line feed, then a chunk", b";a\n0"), ("bare CR at the end", b";a\r"),
    ):  # fmt: skip
        message = _chunked(b"5" + extension + b"\r\nhello\r\n0\r\n\r\n")
        yield Message(f"extension: {name}", message, (_took(b"hello"), NOTHING, BROKEN))
        last = _chunked(b"5\r\nhello\r\n0" + extension + b"\r\n\r\n")
        yield Message(
            f"extension: {name}, of the last chunk", last, (_took(b"hello"), _took(b"hello")[:1], NOTHING, BROKEN)
        )


def _trailers() -> Iterator[Message]:
    """Trailers: never headers, never the next request."""
    whole = (_took(b"hello"), _took(b"hello")[:1])
    for name, lines in (
        ("a length", b"Content-Length: 5"), ("a coding", b"Transfer-Encoding: chunked"), ("a host", b"Host: b"),
        ("two", b"X-A: a\r\nX-B: b"), ("no value", b"X-A:"), ("a fold", b"X-A: a\r\n b"), ("no colon", b"X-A"),
        ("a space before the colon", b"X-A : a"), ("a NUL", b"X-A: \0"), ("a line feed", b"X-A: a\nX-B: b"),
        ("a request line", b"GET /hidden HTTP/1.1"), ("too long", b"X-A: " + b"a" * 20_000),
        ("too many", b"\r\n".join(b"X-%d: a" % one for one in range(300))),
    ):  # fmt: skip
        message = _chunked(b"5\r\nhello\r\n0\r\n" + lines + b"\r\n\r\n")
        yield Message(f"trailer: {name}", message, (*whole, *REFUSED, BROKEN, (*BROKEN, LAST)))


def _sequences() -> Iterator[Message]:
    """More than one request on a connection, and what is asked for instead of an answer."""
    ten = b"".join(_get(target=b"/%d" % number) for number in range(10))
    yield Message("ten pipelined", ten, ((*(("GET", f"/{number}", b"") for number in range(10)), LAST),))
    chunked = _chunked(b"5\r\nhello\r\n0\r\n\r\n")
    yield Message(
        "pipelined after chunks", chunked + _get(target=b"/2"), ((("POST", "/", b"hello"), ("GET", "/2", b""), LAST),)
    )
    lengthless = b"POST / HTTP/1.1\r\nHost: a\r\n\r\n" + _get(target=b"/2")
    yield Message("POST without a length", lengthless, ((("POST", "/", b""), ("GET", "/2", b""), LAST), *REFUSED))
    old = b"POST / HTTP/1.0\r\nHost: a\r\n"
    yield Message("HTTP/1.0 POST without a length", old + b"\r\nhello", ((("POST", "/", b""),), NOTHING))
    yield Message(
        "HTTP/1.0 POST", old + b"Content-Length: 5\r\n\r\nhello", ((("POST", "/", b"hello"),), _took(b"hello"))
    )
    both = b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n"
    yield Message("HTTP/1.0 that keeps and closes", both, (_seen()[:1], _seen()))
    for name, line in (
        ("in capitals", b"Connection: CLOSE"),
        ("in a list", b"Connection: x, close"),
        ("twice", b"Connection: keep-alive\r\nConnection: close"),
    ):
        yield Message(f"close {name}", _get(line + b"\r\n"), (_seen()[:1], _seen()))
    for name, lines in (
        ("without a body", b"Expect: 100-continue"), ("twice", b"Expect: 100-continue\r\nExpect: 100-continue"),
        ("in a list", b"Expect: 100-continue, wat"), ("in capitals", b"Expect: 100-CONTINUE"),
        ("of nothing", b"Expect:"),
    ):  # fmt: skip
        yield Message(f"Expect {name}", _get(lines + b"\r\n"), (_seen(), *REFUSED, _seen()[:1]))
    expects = b"POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"
    yield Message("Expect in HTTP/1.0", expects, ((("POST", "/", b"hello"),), _took(b"hello"), *REFUSED))
    for name, lines in (
        ("websocket without a key", b"Connection: Upgrade\r\nUpgrade: websocket"),
        ("websocket without Connection", b"Upgrade: websocket"), ("nothing", b"Connection: Upgrade"),
        ("TLS", b"Connection: Upgrade\r\nUpgrade: TLS/1.0"),
        ("a list of many", b"Connection: Upgrade\r\nUpgrade: a, b, c, websocket"),
        ("h2c, wrong settings", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: !"),
    ):  # fmt: skip
        yield Message(f"upgrade: {name}", _get(lines + b"\r\n"), (_seen(), *REFUSED, _seen()[:1]))
    yield Message(
        "empty lines between",
        _get() + b"\r\n\r\n" + _get(target=b"/2"),
        ((*_seen()[:1], ("GET", "/2", b""), LAST), _seen()[:1]),
    )
