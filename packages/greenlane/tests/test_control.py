"""The control socket, over real sockets and real forks."""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import socket
import stat
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from greenlane.control import client
from greenlane.control.client import Process, ask, processes
from greenlane.control.protocol import PATH_MAX_BYTES, REQUEST_MAX_BYTES, check_directory
from greenlane.control.server import Server
from greenlane.errors import ControlError, SettingsError
from tests.where import IMPORT_PATH


@dataclass(frozen=True)
class Row:
    route: str = "GET /quote"
    phase: int = 0
    samples: int = 5
    expected_ms: float = 40.5
    weight: str = "heavy"
    pinned: bool = False
    released_frac: float = 0.0


@dataclass
class Running:
    """A `Controlled` that remembers."""

    now: str = "on"
    switched: list[tuple[str, str | None]] = field(default_factory=list)
    fails: Exception | None = None

    def mode(self) -> str:
        return self.now

    def set_mode(self, mode: str, route: str | None = None) -> None:
        if self.fails is not None:
            raise self.fails
        self.switched.append((mode, route))
        if route is None:
            self.now = mode

    def counters(self) -> dict[str, int]:
        return {"jobs": 3}

    def learned(self) -> list[Row]:
        return [Row()]


def control_threads() -> list[str]:
    """Ids of the native threads that listen and answer here; one that has ended stands there for a moment."""
    found: list[str] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            if (task / "comm").read_text() == "greenlane-contr\n":
                found.append(task.name)
    return found


def no_control_thread() -> bool:
    until_s = time.monotonic() + 10
    while control_threads() and time.monotonic() < until_s:
        time.sleep(0.001)
    return not control_threads()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert no_control_thread()


@pytest.fixture
def running() -> Running:
    return Running()


@pytest.fixture
def server(tmp_path: Path, running: Running) -> Iterator[Server]:
    """A started server; ended with the test."""
    made = Server(running, tmp_path / "control")
    made.start()
    yield made
    made.stop()


@pytest.fixture
def raw(server: Server) -> Iterator[socket.socket]:
    with contextlib.closing(connected(server.path)) as connection:
        yield connection


def connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    connection.connect(str(path))
    return connection


def answer_to(connection: socket.socket, request: bytes) -> dict[str, object]:
    connection.sendall(request)
    pieces = b""
    while piece := connection.recv(65536):
        pieces += piece
    document = json.loads(pieces)
    assert isinstance(document, dict)
    return document


def in_child(work: Server) -> tuple[int, int]:
    """Forks; gives (pid, a descriptor that the child closes when it ends). The child starts and serves until killed."""
    ready, started = os.pipe()
    pid = os.fork()
    if pid == 0:
        work.start()
        os.write(started, b"x")
        threading.Event().wait()
        os._exit(0)
    os.close(started)
    return pid, ready


# --- what it answers


def test_show_gives_mode_counters_and_what_is_learned(server: Server) -> None:
    assert ask(server.path, {"do": "show"}) == {
        "ok": True,
        "pid": os.getpid(),
        "mode": "on",
        "counters": {"jobs": 3},
        "learned": [vars(Row())],
    }


def test_mode_switches_the_process_or_one_route(server: Server, running: Running) -> None:
    assert ask(server.path, {"do": "mode", "mode": "off", "route": None})["mode"] == "off"
    ask(server.path, {"do": "mode", "mode": "observe", "route": "GET /quote"})
    assert running.switched == [("off", None), ("observe", "GET /quote")]


@pytest.mark.parametrize(
    ("request_line", "says"),
    [
        (b"\n", "expected a line of JSON"),
        (b"hello\n", "expected a line of JSON"),
        (b"[]\n", "expected a line of JSON"),
        (b'"do"\n', "expected a line of JSON"),
        (b"\xff\xfe\n", "expected a line of JSON"),
        (b"[" * 4000 + b"\n", "expected a line of JSON"),
        (b'{"do": "stop"}\n', "do='stop', expected show, mode, record, attach, detach or breaker"),
        (b'{"do": ["show"]}\n', "expected show, mode, record, attach, detach or breaker"),
        (b'{"do": "mode"}\n', "mode=None, expected one of on, observe, off"),
        (b'{"do": "mode", "mode": {}}\n', "mode={}, expected one of"),
        (b'{"do": "mode", "mode": "on", "route": 3}\n', "route=3, expected a route's name"),
        (b'{"do": "mode", "mode": "on", "route": ""}\n', "expected a route's name"),
        (b'{"do": "breaker", "state": "open"}\n', "key=None, expected a text"),
        (b'{"do": "breaker", "key": "\\ud800", "state": "open"}\n', "expected a text"),
        (b'{"do": "breaker", "key": "taco", "state": "ajar"}\n', "state='ajar', expected open or closed"),
        (b'{"do": "breaker", "key": "taco", "state": "open"}\n', "no orders are worked off here"),
        (b"x" * (REQUEST_MAX_BYTES + 1), f"at most {REQUEST_MAX_BYTES} bytes"),
    ],
)
def test_a_wrong_request_is_refused_with_a_reason(raw: socket.socket, request_line: bytes, says: str) -> None:
    if request_line == b"\n":
        # An empty line is what a client that goes away leaves: no answer.
        raw.sendall(request_line)
        assert raw.recv(100) == b""
        return
    answer = answer_to(raw, request_line)
    assert answer["ok"] is False
    assert says in str(answer["error"])
    assert answer["hint"]


def test_a_refusal_reaches_the_client_with_its_hint(server: Server, running: Running) -> None:
    running.fails = SettingsError("route", "GET /x", "a known route", "see `greenlane top`", attempted="switch")
    with pytest.raises(ControlError, match="expected a known route\nhint: see `greenlane top`"):
        ask(server.path, {"do": "mode", "mode": "on", "route": "GET /x"})


def test_a_failure_inside_reaches_the_client_and_not_the_process(server: Server, running: Running) -> None:
    running.fails = ZeroDivisionError("boom")
    with pytest.raises(ControlError, match="ZeroDivisionError: boom"):
        ask(server.path, {"do": "mode", "mode": "on"})
    assert ask(server.path, {"do": "show"})["ok"]


def test_a_client_that_says_nothing_is_dropped_and_the_next_is_served(server: Server) -> None:
    connected(server.path).close()
    assert ask(server.path, {"do": "show"})["ok"]


@pytest.mark.slow
def test_a_client_that_never_ends_its_line_is_dropped_after_the_bound(server: Server) -> None:
    with contextlib.closing(connected(server.path)) as silent:
        silent.sendall(b'{"do":')
        assert ask(server.path, {"do": "show"}, timeout_s=30)["ok"]
        assert silent.recv(100) == b""


# --- the socket


def test_the_socket_is_private_in_a_private_directory(server: Server, tmp_path: Path) -> None:
    assert stat.S_IMODE(server.path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "control").stat().st_mode) == 0o700
    assert os.listdir(tmp_path / "control") == [f"{os.getpid()}.sock"]


def test_missing_parents_of_the_directory_are_made(tmp_path: Path, running: Running) -> None:
    server = Server(running, tmp_path / "a" / "b")
    server.start()
    server.stop()
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_starting_and_stopping_twice_is_as_once(tmp_path: Path, running: Running) -> None:
    server = Server(running, tmp_path)
    for _ in range(2):
        server.start()
        server.start()
        assert ask(server.path, {"do": "show"})["ok"]
        server.stop()
        server.stop()
        assert not server.path.exists()


def test_the_program_sees_neither_the_thread_nor_the_descriptors(tmp_path: Path, running: Running) -> None:
    server = Server(running, tmp_path)
    before = set(os.listdir("/proc/self/fd")), threading.enumerate(), _thread._count()
    for _ in range(3):
        server.start()
        assert ask(server.path, {"do": "show"})["ok"]
        assert len(control_threads()) == 2
        assert (set(os.listdir("/proc/self/fd")), threading.enumerate(), _thread._count()) == before
        server.stop()
        assert no_control_thread()


def test_an_answer_uses_the_programs_descriptors(server: Server, running: Running) -> None:
    """What wakes somebody by an eventfd, or closes a file as garbage, must meet the table that all others have."""
    reading, writing = os.pipe()

    def told() -> dict[str, int]:
        os.write(writing, b"x")
        os.close(writing)
        return {}

    running.counters = told  # type: ignore[method-assign]
    assert ask(server.path, {"do": "show"})["ok"]
    assert os.read(reading, 10) == b"x"
    assert os.read(reading, 10) == b""
    os.close(reading)


def test_a_program_may_close_all_descriptors(tmp_path: Path, run_python: Callable[..., object]) -> None:
    program = """
        import os, sys
        from tests.test_control import Running, Server, ask
        server = Server(Running(), sys.argv[1])
        server.start()
        os.closerange(3, 4096)
        assert ask(server.path, {"do": "show"})["ok"]
    """
    source = f"import sys; sys.path[:0] = {IMPORT_PATH.split(os.pathsep)!r}\n{textwrap.dedent(program)}"
    run_python(source, str(tmp_path / "control"))


@pytest.mark.slow
def test_a_process_that_ends_in_order_removes_its_socket(tmp_path: Path, run_python: Callable[..., object]) -> None:
    program = """
        import os, sys
        from tests.test_control import Running, Server
        Server(Running(), sys.argv[1]).start()
        assert os.listdir(sys.argv[1]) == [f"{os.getpid()}.sock"]
    """
    source = f"import sys; sys.path[:0] = {IMPORT_PATH.split(os.pathsep)!r}\n{textwrap.dedent(program)}"
    run_python(source, str(tmp_path / "control"))
    assert os.listdir(tmp_path / "control") == []


PATCH = "import gevent.monkey; gevent.monkey.patch_all()"
LOAD = "from greenlane.control import client, server"


@pytest.mark.slow
@pytest.mark.parametrize("order", [(PATCH, LOAD), (LOAD, PATCH)], ids=["patched before", "patched later"])
def test_under_gevent_it_answers_while_the_hub_is_blocked(tmp_path: Path, order: tuple[str, str], run_python) -> None:
    program = (
        "; ".join(order)
        + """
import sys
class Controlled:
    mode = lambda self: "on"
    counters, learned = dict, list
served = server.Server(Controlled(), sys.argv[1])
served.start()
assert client.ask(served.path, {"do": "show"})["ok"]
import gc, gevent.hub
assert [each for each in gc.get_objects() if isinstance(each, gevent.hub.Hub)] == []
"""
    )
    run_python(program, str(tmp_path / "control"))


def test_sockets_of_ended_processes_are_removed_and_others_left(tmp_path: Path, running: Running) -> None:
    def socket_at(name: str, *, listens: bool) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.bind(str(tmp_path / name))
        if listens:
            made.listen()
        return made

    socket_at("1.sock", listens=True).close()
    (tmp_path / "2.sock").write_text("no socket")
    (tmp_path / "notes").write_text("not ours")
    with socket_at("3.sock", listens=True):
        server = Server(running, tmp_path)
        server.start()
        server.stop()
        assert sorted(os.listdir(tmp_path)) == ["2.sock", "3.sock", "notes"]


def test_a_leftover_of_this_process_id_is_replaced(tmp_path: Path, running: Running) -> None:
    server = Server(running, tmp_path)
    with socket.socket(socket.AF_UNIX) as leftover:
        leftover.bind(str(server.path))
    server.start()
    assert ask(server.path, {"do": "show"})["ok"]
    server.stop()


def test_a_socket_that_another_serves_is_not_taken(server: Server, running: Running, tmp_path: Path) -> None:
    with pytest.raises(ControlError, match="control_dir of its own"):
        Server(running, tmp_path / "control").start()
    assert ask(server.path, {"do": "show"})["ok"]


def test_stop_leaves_a_file_that_is_no_longer_ours(tmp_path: Path, running: Running) -> None:
    server = Server(running, tmp_path)
    server.start()
    server.path.unlink()
    server.path.write_text("somebody else's")
    server.stop()
    assert server.path.read_text() == "somebody else's"


# --- refusals


def test_a_directory_too_long_for_a_socket_is_refused_by_its_setting(tmp_path: Path, running: Running) -> None:
    directory = tmp_path / ("d" * PATH_MAX_BYTES)
    for refuse in (Server(running, directory).start, lambda: check_directory(directory)):
        with pytest.raises(SettingsError, match=f"at most {PATH_MAX_BYTES} bytes") as caught:
            refuse()
        assert caught.value.setting == "control_dir"
    assert not directory.exists()


def test_a_path_of_exactly_the_longest_length_serves(tmp_path: Path, running: Running) -> None:
    name = f"{os.getpid()}.sock"
    room = PATH_MAX_BYTES - len(os.fsencode(tmp_path / "x" / name)) + 1
    assert room > 0, "the temporary folder itself is too deep for a socket"
    server = Server(running, tmp_path / ("d" * room))
    server.start()
    assert len(os.fsencode(server.path)) == PATH_MAX_BYTES
    assert ask(server.path, {"do": "show"})["ok"]
    server.stop()


def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path, running: Running) -> None:
    tmp_path.chmod(0o777)
    for refuse in (Server(running, tmp_path).start, lambda: check_directory(tmp_path)):
        with pytest.raises(SettingsError, match="its mode is 777") as caught:
            refuse()
        assert str(tmp_path / "greenlane") in caught.value.hint


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path, running: Running) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        for refuse in (Server(running, directory).start, lambda where=directory: check_directory(where)):
            with pytest.raises(SettingsError, match="control_dir="):
                refuse()


def test_checking_a_directory_makes_nothing(tmp_path: Path) -> None:
    check_directory(tmp_path / "a" / "b")
    assert os.listdir(tmp_path) == []


# --- the client


def test_processes_that_listen_are_listed_by_process_id_and_nothing_else_is(tmp_path: Path) -> None:
    with contextlib.ExitStack() as listening:
        for name in ("10.sock", "9.sock", "x.sock", "0.sock", ".11.new", "12.sock.bak"):
            listener = listening.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(str(tmp_path / name))
            listener.listen()
        with socket.socket(socket.AF_UNIX) as ended:
            ended.bind(str(tmp_path / "8.sock"))
        (tmp_path / "7.sock").write_text("no socket")
        assert processes(tmp_path) == [Process(9, tmp_path / "9.sock"), Process(10, tmp_path / "10.sock")]


def test_a_process_too_busy_to_be_asked_is_listed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as waiting:
        full.bind(str(tmp_path / "1.sock"))
        full.listen(0)
        waiting.connect(str(tmp_path / "1.sock"))
        assert processes(tmp_path) == [Process(1, tmp_path / "1.sock")]


def test_a_directory_that_is_missing_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ControlError, match=r"No such file or directory\)\nhint: start a service with this control_dir"):
        processes(tmp_path / "absent")


def test_asking_an_ended_process_says_so(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as ended:
        ended.bind(str(tmp_path / "1.sock"))
        ended.listen()
    with pytest.raises(ControlError, match="expected a running process"):
        ask(tmp_path / "1.sock", {"do": "show"})


def test_asking_a_process_that_hangs_ends_in_time(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(str(tmp_path / "1.sock"))
        hung.listen()
        with pytest.raises(ControlError, match=r"an answer within 0\.01 s"):
            ask(tmp_path / "1.sock", {"do": "show"}, timeout_s=0.01)


@pytest.mark.parametrize("answer", [b"", b"hello\n", b"[1]\n", b"\xff\n", b'{"ok": 1}\n'])
def test_an_answer_that_is_none_of_ours_is_refused(tmp_path: Path, answer: bytes) -> None:
    path = tmp_path / "1.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        stranger = threading.Thread(target=serve)
        stranger.start()
        with pytest.raises(ControlError):
            ask(path, {"do": "show"})
        stranger.join()


def test_an_answer_without_end_is_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"x" * 1000)
        with pytest.raises(ValueError, match="over 999 bytes"):
            client._read_line(ours, time.monotonic() + 10, 999)


# --- fork


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_its_own_socket_once_it_starts_one(server: Server, tmp_path: Path) -> None:
    pid, ready = in_child(server)
    try:
        assert os.read(ready, 1) == b"x"
        found = processes(tmp_path / "control")
        assert [process.pid for process in found] == sorted([os.getpid(), pid])
        assert sorted(ask(process.socket, {"do": "show"})["pid"] for process in found) == sorted([os.getpid(), pid])
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(ready)
    with pytest.raises(ControlError, match="expected a running process"):
        ask(tmp_path / "control" / f"{pid}.sock", {"do": "show"})
    assert ask(server.path, {"do": "show"})["pid"] == os.getpid()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_stops_does_not_end_its_parents_socket(server: Server) -> None:
    pid = os.fork()
    if pid == 0:
        server.stop()
        os._exit(0)
    os.waitpid(pid, 0)
    assert ask(server.path, {"do": "show"})["pid"] == os.getpid()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_does_not_keep_the_socket_of_an_ended_parent(tmp_path: Path, running: Running) -> None:
    """The server's process is ended while its child lives: a client is refused immediately instead of hanging."""
    server = Server(running, tmp_path)
    ready, started = os.pipe()
    go, going = os.pipe()
    parent = os.fork()
    if parent == 0:
        os.close(going)
        server.start()
        if os.fork() == 0:
            os.write(started, b"x")
            os.read(go, 1)  # until the test ends
        os._exit(0)
    os.close(started)
    assert os.read(ready, 1) == b"x"
    os.waitpid(parent, 0)
    with pytest.raises(ControlError, match="expected a running process"):
        ask(tmp_path / f"{parent}.sock", {"do": "show"})
    for descriptor in (ready, go, going):
        os.close(descriptor)
