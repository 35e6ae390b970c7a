"""The corpus at each place where Greenlane reads what a client sends, and through each front that it exports to.

A client's requests reach the application in one of the readings that are allowed, each answered once, or are refused:
no 5xx except what is not implemented, and no connection that stays without an answer.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.serve.corpus import END, Message, messages
from tests.serve.fronts import running
from tests.serve.served import APPS, Served, until
from tests.serve.wire import SETTINGS, STATUS, Outcome, address, records, request, talk

from greenlane.settings import load
from greenlane_serve.export.fleet import fleet_of
from greenlane_serve.settings import ServeSettings
from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

FRONTS = ("haproxy", "nginx", "envoy")
KEPT = [line for line in SETTINGS.splitlines() if not line.startswith(("access_log", "request_id"))]
BEHIND = "\n".join([*KEPT, 'trusted_proxies = ["127.0.0.1"]', 'health_path = "/healthz"', ""])
_AT_ONCE = 64
# `505`: a version that nobody speaks; `501`: a method or a coding.
_REFUSALS = ("501", "505")


#: Names of messages, or how they begin, that these read in a way of their own. Nobody behind reads them again, or gets
#: what they have made of it, so there are no two readings; a hidden request is never one.
DEVIATES = {
    # Servers alone have limits, rules for Host and codings of their own, and begin with a body that then breaks off.
    "worker": (
        "absolute form", "CONNECT", "target with a fragment", "no Host", "length with more than",
        "coding: gzip, chunked", "target over the limit", "body over the limit", "half a",
    ),
    "haproxy": (),
    # It passes over header lines that are none. HTTP/1.0 without Host is refused behind it.
    "nginx": ("absolute form", "no colon", "name that is no token", "octet", "HTTP/1.0", "version HTTP/1.01"),
    # It looks for no line break after a chunk, turns a backslash into `/`, and refuses HTTP/1.0.
    "envoy": (
        "CR CR LF", "absolute form", "target with quotes", "Host twice", "chunk: too short", "HTTP/1.0",
        "Connection that names", "extension: quotes with CRLF", "target over the buffer", "header over the buffer",
    ),
    # A front adds some: then there are too many for the server behind it.
    "all": ("as many headers as may be",),
}  # fmt: skip


@dataclass
class Place:
    """Where a client talks, and the folder in which the application writes what it sees."""

    name: str
    folder: Path
    port: int


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """For the exported fronts, one after the other; it trusts them."""
    with Served(tmp_path_factory.mktemp("behind"), "seen:wsgi", BEHIND, "--kind", "wsgi") as served:
        yield served


@pytest.fixture(scope="module", params=["worker", *FRONTS])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    if name in FRONTS:
        behind = request.getfixturevalue("behind")
        found = load(file=behind.folder / "greenlane.toml", environ={}, kind=ServeSettings)
        with running(name, fleet_of(found, [f"127.0.0.1:{behind.port}"]), folder) as port:
            until(lambda: b" 200 " in talk(port, END)[:20])
            yield Place(name, behind.folder, port)
    else:
        with worker(folder) as port:
            yield Place(name, folder, port)


@contextlib.contextmanager
def worker(folder: Path) -> Iterator[int]:
    """gunicorn with our worker class, and nothing before it."""
    port = child.free_port()
    command = [sys.executable, "-m", "gunicorn", "-k", "greenlane.hosts.gunicorn.Worker", "--threads", "64",
               "--bind", f"127.0.0.1:{port}", "--no-control-socket", "seen:wsgi"]  # fmt: skip
    environ = {"HELD": str(folder), "GREENLANE_HEAD_TIMEOUT_S": "0.6", "GREENLANE_BODY_TIMEOUT_S": "0.6"}
    with child.Child(command, cwd=APPS, env=environ) as process:
        process.wait_output("Booting worker")
        process.wait_port(port)
        yield port


def test_every_message_is_read_in_one_way_and_answered(place: Place) -> None:
    corpus = list(messages())
    wrong = [
        f"{one.name}: {outcome.statuses} {outcome.reading}"[:300]
        for one, outcome in zip(corpus, exchanged(place, corpus), strict=True)
        if not (outcome.reading in one.readings or deviates(place, one)) or not answered(outcome)
    ]
    assert wrong == []
    assert not [one for one in records(place) if "hidden" in one["target"]]


def deviates(place: Place, message: Message) -> bool:
    """Whether another reading than the front of `serve` may have is known there."""
    return any(message.name.startswith(start) for start in (*DEVIATES[place.name], *DEVIATES["all"]))


def answered(outcome: Outcome) -> bool:
    """Nothing is answered as our error; what is answered has reached the application, and once."""
    errors = [one for one in outcome.statuses if one == "hung" or (one[0] == "5" and one not in _REFUSALS)]
    whole = sum(body != b"!" for _, _, body in outcome.reading)
    given = outcome.statuses.count("200")
    # uvicorn ends a connection immediately by a 400, and an answer that was on its way with it.
    lost = outcome.statuses[-1:] == ("400",) and whole - given == 1
    return not errors and (whole <= given <= len(outcome.reading) or lost)


def exchanged(place: Place, corpus: Sequence[Message]) -> list[Outcome]:
    """Send each from an address of its own: that tells whose request the application sees."""
    before = len(records(place))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        sources = [address(number) for number in range(len(corpus))]
        talks = [
            pool.submit(said, place.port, one.sent + END, source) for one, source in zip(corpus, sources, strict=True)
        ]
        answers = [one.result() for one in talks]
    seen = records(place)[before:]
    return [
        Outcome(answer, tuple(request(one) for one in seen if one["client"][0] == source))
        for source, answer in zip(sources, answers, strict=True)
    ]  # fmt: skip


def said(port: int, message: bytes, source: str) -> tuple[str, ...]:
    try:
        return tuple(status.decode() for status in STATUS.findall(talk(port, message, source=source)))
    except TimeoutError:
        return ("hung",)
