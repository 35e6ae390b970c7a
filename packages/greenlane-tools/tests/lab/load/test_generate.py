"""The generator's process sends what was scheduled when it was, whatever the server does, and ends when told."""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lab.load.answering import OK, Answer, Server, answered

from greenlane.errors import HostError, SettingsError
from greenlane_tools.lab.load.generate import Generated, generate
from greenlane_tools.lab.load.plan import Arrivals, Burst, Constant, Plan, Poisson, Recorded, Stream, Work
from greenlane_tools.lab.load.schedule import schedule
from greenlane_tools.lab.processes import descendants
from greenlane_tools.lab.samples import FAILED, UNANSWERED, Samples

pytestmark = pytest.mark.slow

USERS = Poisson(200.0)

Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with contextlib.ExitStack() as stack:

        def start(answer: Answer, path: Path | None = None) -> Server:
            server = Server(answer, path)
            stack.callback(server.close)
            return server

        yield start


def load(address: str, arrivals: Arrivals = USERS, seconds: float = 0.5, **fields: Any) -> Generated:
    return generate(Plan("seed", seconds, (Stream("quote", address, arrivals, "/quote", **fields),)))


def test_every_scheduled_request_is_sent_once_with_its_work(serve: Serve) -> None:
    server = serve(answered)
    stream = Stream("quote", server.address, Poisson(200.0), "/quote", cost_ms=40.0, work=Work(40.0, 1.0))
    plan = Plan("seed", 0.5, (stream,))
    made, generated = schedule(plan), generate(plan)
    samples = generated.samples
    assert np.array_equal(samples.scheduled_ns, made.at_ns) and np.array_equal(samples.work_ms, made.work_ms)
    assert (samples.status == 200).all()
    sent = sorted(head.split(b" ")[1] for head in server.requests)
    assert sent == sorted(f"/quote?ms={amount}".encode() for amount in made.work_ms.tolist())
    assert generated.connections == len(samples) and not any(generated.failures.values())


def test_a_request_is_what_its_stream_says(serve: Serve) -> None:
    server = serve(answered)
    fields: dict[str, Any] = {"method": "POST", "headers": {"host": "shop", "X-A": "b c"}, "body": b"{}"}
    load(server.address, Burst(1, 0.0), connections="keep-alive", **fields)
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /quote HTTP/1.1" and body == b"{}"
    assert sorted(lines[1:]) == [b"Connection: keep-alive", b"Content-Length: 2", b"X-A: b c", b"host: shop"]


def test_no_request_leaves_before_its_time_and_all_leave_though_none_is_answered(serve: Serve) -> None:
    server = serve(lambda connection, number: None)
    samples = load(server.address, timeout_s=0.7).samples
    assert len(server.requests) == len(samples) > 0  # open loop: silence does not slow it down
    assert (samples.sent_ns >= samples.scheduled_ns).all()
    assert (samples.status == UNANSWERED).all() and (samples.latency_ms() >= 700).all()


def test_each_stream_has_a_time_out_of_its_own(serve: Serve) -> None:
    server = serve(lambda connection, number: None)
    streams = tuple(Stream(f"{s}", server.address, Burst(1, 0.0), timeout_s=s) for s in (0.3, 0.1))
    samples = generate(Plan("seed", 0.1, streams)).samples
    assert samples.latency_ms()[0] >= 300 > 100 <= samples.latency_ms()[1]
    assert samples.done_ns[1] < samples.done_ns[0]


def test_over_a_unix_socket_and_with_two_connections_at_most(serve: Serve, tmp_path: Path) -> None:
    server = serve(answered, tmp_path / "its.sock")
    samples = load(server.address, Burst(50, 0.0), connections="keep-alive", most_connections=2).samples
    assert (samples.status == 200).all() and server.connections <= 2 and len(server.requests) == 50


def test_the_worker_is_read_from_the_header_that_the_plan_names(serve: Serve) -> None:
    server = serve(lambda connection, number: connection.sendall(OK.replace(b"\r\n\r\n", b"\r\nX-Pid: 4711\r\n\r\n")))
    stream = Stream("quote", server.address, Burst(3, 0.0))
    assert generate(Plan("seed", 0.1, (stream,), "x-pid")).samples.worker.tolist() == [4711] * 3
    assert generate(Plan("seed", 0.1, (stream,))).samples.worker.tolist() == [0] * 3


def test_other_answers_are_recorded_as_what_they_are(serve: Serve) -> None:
    answers = itertools.cycle(
        [
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            b"HTTP/1.0 201 Made\r\n\r\nuntil the end",
            b"220 smtp.example.org ESMTP\r\n",
        ]
    )

    def varied(connection: socket.socket, number: int) -> None:
        connection.sendall(next(answers))
        connection.shutdown(socket.SHUT_RDWR)

    generated = load(serve(varied).address, Constant(80.0))
    assert sorted(generated.samples.status.tolist()) == [FAILED] * 10 + [200] * 10 + [201] * 10 + [503] * 10
    assert generated.failures["not HTTP"] == 10


def test_a_server_that_dies_under_load_fails_the_rest_and_nothing_else(start_process: Any, free_port: int) -> None:
    stalling = [sys.executable, str(Path(__file__).with_name("stalling.py")), str(free_port), "--after-s", "99"]
    server = start_process(stalling, port=free_port)
    stream = Stream("quote", f"127.0.0.1:{free_port}", Constant(200.0), connections="keep-alive")

    def end(sent: int, over: int) -> None:
        if over > 20:
            server.signal(signal.SIGKILL)

    generated = generate(Plan("seed", 2.0, (stream,)), progress=end)
    statuses = generated.samples.status.tolist()
    assert statuses[0] == 200 and statuses[-1] == FAILED and len(statuses) == 400
    assert generated.failures["refused"] > 0


def test_nobody_listening_is_a_failure_and_not_an_exception(free_port: int) -> None:
    generated = load(f"127.0.0.1:{free_port}", Burst(5, 0.0))
    assert (generated.samples.status == FAILED).all() and generated.failures["refused"] == 5


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:http:x", "unix:" + "x" * 200])
def test_an_address_that_is_none_is_named(address: str) -> None:
    with pytest.raises(HostError, match="send the load: address="):
        load(address, Burst(1, 0.0))


@pytest.mark.parametrize("fields", [{"headers": {"X": "a\r\nY: b"}}, {"method": "G T"}, {"path": "/a b"}])
def test_what_cannot_stand_in_a_request_is_refused(fields: dict[str, Any]) -> None:
    stream = Stream("quote", "127.0.0.1:1", Burst(1, 0.0), **fields)
    with pytest.raises(SettingsError, match=r"make the requests: quote\."):
        generate(Plan("seed", 0.1, (stream,)))


def test_a_plan_without_requests_is_over_at_once() -> None:
    generated = generate(Plan("seed", 1.0, ()))
    assert len(generated.samples) == 0 and not generated.saturated and generated.warning() == ""


def test_too_few_open_files_are_the_generator_s_trouble_and_named_with_a_remedy(serve: Serve, run_python: Any) -> None:
    server = serve(lambda connection, number: None)
    source = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from greenlane.errors import HostError
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Burst, Plan, Stream
try:
    generate(Plan("seed", 0.1, (Stream("quote", sys.argv[1], Burst(100, 0.0)),)))
except HostError as error:
    print(error)
"""
    said = run_python(source, server.address).stdout
    assert "open files=64" in said and "hint: raise it" in said


def test_the_limit_of_open_files_is_raised_as_far_as_it_goes(serve: Serve, run_python: Any) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 512:
        pytest.skip("the hard limit is low")
    server = serve(answered)
    source = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Burst, Plan, Stream
print((generate(Plan("seed", 0.1, (Stream("quote", sys.argv[1], Burst(200, 0.0)),))).samples.status == 200).all())
"""
    assert run_python(source, server.address).stdout.strip() == "True"


LONG = """
import sys
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Constant, Plan, Stream
said = lambda sent, over: print("sent", sent, flush=True)
generate(Plan("seed", 60.0, (Stream("quote", sys.argv[1], Constant(50.0)),)), progress=said)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_generator_ends_with_its_caller(serve: Serve, number: signal.Signals) -> None:
    server = serve(answered)
    caller = subprocess.Popen(
        [sys.executable, "-c", LONG, server.address], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert caller.stdout and b"sent" in caller.stdout.readline()
        children = [pid for pid in descendants(caller.pid) if pid != caller.pid]
        assert children
        caller.send_signal(number)
        caller.wait(20)
        for pid in children:
            _gone(pid)
    finally:
        caller.kill()
        caller.communicate()


def _gone(pid: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX":
                os.sched_yield()
                continue
        return
    raise AssertionError(f"process {pid} still runs")


def test_ctrl_c_ends_the_native_loop_itself(serve: Serve) -> None:
    server = serve(lambda connection, number: None)
    source = """
import os, signal, struct, sys, threading
from greenlane_tools import _native
row = (sys.argv[1], b"GET /", b"", b" HTTP/1.1\\r\\n\\r\\n", False, False, 0, 60_000_000_000)
tick = lambda sent, over: os.kill(os.getpid(), signal.SIGINT) if sent else None
try:
    _native.load_run([row], struct.pack("q", 0), struct.pack("H", 0), struct.pack("d", 0), tick=tick)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", source, server.address], capture_output=True, text=True, timeout=40)
    assert done.stdout.strip() == "interrupted", done.stderr


def test_an_exact_replay_sends_at_the_recorded_instants(serve: Serve) -> None:
    server = serve(answered)
    at_ns = (0, 7, 100_000_003, 100_000_003, 250_000_000)
    generated = load(server.address, Recorded(at_ns))
    assert tuple(generated.samples.scheduled_ns.tolist()) == at_ns
    assert (generated.begun_ns >= generated.samples.scheduled_ns).all()


def test_what_lies_in_the_current_folder_does_not_become_the_generator(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('not this one')")
    monkeypatch.chdir(tmp_path)
    assert (load(serve(answered).address, Burst(1, 0.0)).samples.status == 200).all()


def test_a_schedule_that_was_not_kept_says_what_to_do() -> None:
    def late(lag_ms: float, at_ns: int, cpu_ms: float) -> str:
        size = 200
        scheduled = np.arange(size, dtype=np.int64) * at_ns
        zero = np.zeros(size, np.int64)
        columns = (zero, zero, zero, zero.astype(np.int16), zero.astype(np.int32), np.zeros(size))
        samples = Samples(("a",), zero.astype(np.uint16), scheduled, *columns)
        return Generated(samples, scheduled + int(lag_ms * 1e6), 0, 1.0, cpu_ms, 1, 0, {}).warning()

    assert late(1.0, 1_000_000, 100.0) == ""
    assert "leave it a core" in late(9.0, 1_000_000, 100.0)
    assert "fewer requests" in late(9.0, 1_000_000, 950.0)
    assert "200 were due at one instant" in late(9.0, 0, 100.0)


def test_columns_that_cannot_be_a_schedule_are_refused() -> None:
    from greenlane_tools import _native

    row = ("127.0.0.1:1", b"", b"", b"", False, False, 0, 1)
    for times, streams in [(np.array([2, 1]), [0, 0]), (np.array([-1, 0]), [0, 0]), (np.array([1, 2]), [0, 1])]:
        numbers = np.array(streams, np.uint16).tobytes()
        with pytest.raises(ValueError, match="schedule"):
            _native.load_run([row], times.astype(np.int64).tobytes(), numbers, np.zeros(2).tobytes())
