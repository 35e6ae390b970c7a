"""Two parsers never disagree: the corpus, and what chance makes of it, through the real HAProxy and both workers.

Which answers HAProxy 2.6 gives and what the workers make of them is written down in readings.txt; to renew it after a
deliberate change: `python -m tests.serve.test_serve_wire`.
"""

from __future__ import annotations

import os
import random
import socket
import tempfile
from pathlib import Path

import pytest
from tests.serve.corpus import BROKEN, END, HIDDEN, Message, messages
from tests.serve.served import Served, until
from tests.serve.wire import KINDS, SETTINGS, Outcome, outcomes, records, talk

from greenlane_serve.haproxy.found import found, version
from greenlane_serve.haproxy.requests import FORGEABLE, FORGEABLE_BEGUN

pytestmark = [pytest.mark.system, pytest.mark.slow]

READINGS = Path(__file__).with_name("readings.txt")
# Messages that chance makes. `WIRE_MUTANTS=5000 WIRE_SEED=7 pytest …` for a long run.
MUTANTS = int(os.environ.get("WIRE_MUTANTS", "40"))
SEED = int(os.environ.get("WIRE_SEED", "1"))
_PIECES = (
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b",", b";", b"\x0b", b"\x85", b"0\r\n\r\n", b"Host: b\r\n", HIDDEN,
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: websocket\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", b"chunked", b"5",
)  # fmt: skip


def test_every_message_is_read_in_one_of_its_readings_or_refused(wired: Served) -> None:
    corpus = list(messages())
    found_ = outcomes(wired, [one.sent + END for one in corpus])
    wrong = {
        one.name: outcome for one, outcome in zip(corpus, found_, strict=True) if outcome.reading not in one.readings
    }
    assert wrong == {}
    assert not [one for one in records(wired) if "hidden" in one["target"] or "cookie" in one["headers"]]
    if version(found())[:2] == (2, 6):
        assert table(corpus, found_).splitlines() == written(kind_of(wired))


def test_what_chance_makes_of_the_corpus_never_gets_past_the_front(wired: Served) -> None:
    chance = random.Random(SEED)
    outcomes(wired, [mutant(chance) for _ in range(MUTANTS)])


def test_a_message_in_pieces_is_read_as_a_whole_one(wired: Served) -> None:
    corpus = {one.name: one for one in messages()}
    for name in ("chunked", "length", "pipelined", "trailer", "chunk: extension"):
        message = corpus[name].sent + END
        before = len(records(wired))
        talk(wired.port, *(message[at : at + 3] for at in range(0, len(message), 3)))
        seen = tuple((one["method"], one["target"], one["body"].encode()) for one in records(wired)[before:])
        assert seen in corpus[name].readings


def test_no_header_that_others_set_and_applications_believe_gets_through(wired: Served) -> None:
    names = {*FORGEABLE, *FORGEABLE_BEGUN}
    before = len(records(wired))
    talk(wired.port, b"GET / HTTP/1.1\r\nConnection: close\r\nHost: a\r\nX-Client-Version: 7\r\n",
         b"".join(f"{name.title()}: forged\r\n".encode() for name in names), b"\r\n")  # fmt: skip
    (seen,) = records(wired)[before:]
    assert names.isdisjoint(seen["headers"]) and seen["headers"]["x-client-version"] == "7"


def mutant(chance: random.Random) -> bytes:
    """A message of the corpus with pieces put in, taken out, doubled; now and then with another's head or body."""
    corpus = [one.sent for one in messages() if len(one.sent) < 2000]
    message = bytearray(chance.choice(corpus))
    if chance.random() < 0.3:
        message += chance.choice(corpus)
    for _ in range(chance.randint(1, 3)):
        at, end = sorted(chance.choices(range(len(message) + 1), k=2))
        match chance.randrange(4):
            case 0 | 1:
                message[at:at] = chance.choice(_PIECES)
            case 2:
                del message[at : min(end, at + 4)]
            case _:
                message[at:at] = message[at : min(end, at + 30)]
    return bytes(message) + END


def table(corpus: list[Message], found_: list[Outcome]) -> str:
    """A line a message: what the client was answered, and what the worker saw.

    Left out are those of which a worker may have begun with a body that then breaks, or not: that depends on when the
    front reads.
    """
    lines = []
    for one, outcome in zip(corpus, found_, strict=True):
        if BROKEN in one.readings:
            continue
        seen = ", ".join(f"{method} {target!r} {_short(body)}".rstrip() for method, target, body in outcome.reading)
        lines.append(f"{one.name:42} | {' '.join(outcome.statuses) or 'closed':11} | {seen}\n")
    return "".join(lines)


def written(kind: str) -> list[str]:
    """The table in the file."""
    _, _, after = READINGS.read_text().partition(f"## {kind}\n")
    return after.partition("\n\n")[0].splitlines()


def kind_of(served: Served) -> str:
    return next(kind for kind in KINDS if f"seen:{kind}" in served.process.argv)


def _short(body: bytes) -> str:
    return f"{body!r}" if 0 < len(body) < 12 else f"({len(body)} bytes)" if body else ""


def _renew() -> None:
    text = ""
    for kind in KINDS:
        with (
            tempfile.TemporaryDirectory() as folder,
            Served(Path(folder), f"seen:{kind}", SETTINGS, "--kind", kind) as served,
        ):
            corpus = list(messages())
            found_ = outcomes(served, [one.sent + END for one in corpus])
            text += f"## {kind}\n{table(corpus, found_)}\n"
            for one, outcome in zip(corpus, found_, strict=True):
                if outcome.reading not in one.readings:
                    print(kind, one.name, outcome)
    READINGS.write_text(text.rstrip("\n") + "\n")


# --- A client that has closed its sending side is taken as gone, queued or running.


ONE_PLACE = "workers = 1\nat_once = 1\n"


@pytest.mark.parametrize("application", ["held:app", "looped:app"], ids=["wsgi", "asgi"])
def test_a_half_closed_client_is_taken_out_of_the_queue(tmp_path: Path, application: str) -> None:
    with Served(tmp_path, application, ONE_PLACE) as served:
        running, queued = two(served, "gone")
        assert ended(queued) == b""
        assert ended(running).startswith(b"HTTP/1.1 400")
        (tmp_path / "gone-1.let_go").touch()
        assert served.get("/x")
        assert "gone-2" not in served.order()


def two(served: Served, name: str) -> tuple[socket.socket, socket.socket]:
    """A client whose request runs, and one whose request is in the queue."""
    socks = []
    for number, queued in ((1, 0), (2, 1)):
        sock = socket.create_connection(("127.0.0.1", served.port), timeout=30)
        sock.sendall(f"GET /long/hold?{name}-{number} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        until(lambda: f"{name}-1" in served.order())
        served.waiting("shared", queued)
        socks.append(sock)
    return socks[0], socks[1]


def ended(sock: socket.socket) -> bytes:
    """Close its sending side; all that comes."""
    received = b""
    sock.shutdown(socket.SHUT_WR)
    with sock:
        while came := sock.recv(65536):
            received += came
    return received


if __name__ == "__main__":
    _renew()
