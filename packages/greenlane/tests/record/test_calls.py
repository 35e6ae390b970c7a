"""libc's calls are seen where they are called: how long they blocked, and how long the GIL was waited for."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

RunPython = Callable[..., CompletedProcess[str]]

# What every program here begins with: `recorded(route, act)` runs `act` as a job; `rows()` ends the recording.
PRELUDE = """
import json, os, select, socket, ssl, struct, subprocess, sys, tempfile, threading, time
from greenlane import _native
from greenlane_tools.reader import open_recording

recorder = _native.Recorder()
folder = tempfile.mkdtemp()
# Loaded by the first look-up, encryption and wait, and redirected like the others.
why = _native.calls_install()
assert not why, why
recorder.start(folder, max_bytes=1 << 24, about="{}")
_native.calls_rescan()


def recorded(route, act):
    job = recorder.open(host="test")
    recorder.name(route)
    try:
        return act()
    finally:
        recorder.close(job)


def rows():
    recorder.stop()
    names = ("route", "clock", "arrival_ns", "handler_ns", "end_ns", "cpu_ns", "io_ns", "wait_ns", "uncertain_ns")
    return [{name: getattr(job, name) for name in names} for job in open_recording(folder).jobs]


def peer():
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    listener.close()
    return client, server


def in_a_moment(act, after_s=0.03):
    thread = threading.Timer(after_s, act)
    thread.start()
    return thread
"""

# Each blocks for 30 ms or more. Prints how long at least, from setting out for the call to what it waits for, and how
# long it took with all around it.
BLOCKING = """
set_out_ns = happens_ns = 0


def after_a_moment(act):
    def then():
        global happens_ns
        happens_ns = time.monotonic_ns()
        act()

    global set_out_ns
    in_a_moment(then)
    set_out_ns = time.monotonic_ns()


def in_advance(after_s):
    global set_out_ns, happens_ns
    set_out_ns = time.monotonic_ns()
    happens_ns = set_out_ns + int(after_s * 1e9)


client, server = peer()
lock = threading.Lock()
lock.acquire()
poll = select.poll()
poll.register(server, select.POLLIN)
sender = "import sys,time,socket;s=socket.socket(fileno=int(sys.argv[1]));"
from_fd, to_fd = os.pipe()


def received():
    after_a_moment(lambda: client.send(b"x"))
    server.recv(1)


def polled():
    after_a_moment(lambda: client.send(b"x"))
    poll.poll()
    server.recv(1)


def piped():
    after_a_moment(lambda: os.write(to_fd, b"x"))
    os.read(from_fd, 1)


def locked():
    after_a_moment(lock.release)
    lock.acquire()


def selected():
    after_a_moment(lambda: client.send(b"x"))
    select.select([server], [], [])
    server.recv(1)


def slept():
    in_advance(0.03)
    time.sleep(0.03)


def waited():
    in_advance(0.02)
    sleeper.wait()


acts = {
    "recv": received,
    "poll": polled,
    "select": selected,
    "read": piped,
    "sleep": slept,
    "lock": locked,
    "waitpid": waited,
}
moments = {}
for turn in range(3):
    for name, act in acts.items():
        if name == "waitpid":
            sleeper = subprocess.Popen(["sleep", "0.04"])
        begun_ns = time.monotonic_ns()
        recorded(name, act)
        whole_ns = time.monotonic_ns() - begun_ns
        moments.setdefault(name, []).append((happens_ns - set_out_ns, whole_ns))
print(json.dumps([moments, rows(), _native.calls_state()]))
"""


def _report(done: CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _close(measured_ns: int, true_ns: int) -> bool:
    return abs(measured_ns - true_ns) <= max(500_000, true_ns * 0.03)


@pytest.mark.slow
def test_blocking_calls_count_as_what_they_block_on(run_python: RunPython) -> None:
    moments, jobs, state = _report(run_python(PRELUDE + BLOCKING))
    assert state["installed"]
    assert state["foreign"] == state["failed"] == 0
    kinds = {
        "recv": ("io_ns", "socket"),
        "poll": ("io_ns", "select"),
        "select": ("io_ns", "select"),
        "read": ("io_ns", "driver"),
        "sleep": ("io_ns", "sleep"),
        "lock": ("wait_ns", "lock"),
        "waitpid": ("io_ns", "process"),
    }
    for route, (column, kind) in kinds.items():
        seen = [job[column].get(kind, 0) for job in jobs if job["route"] == route]
        least_ns, most_ns = zip(*moments[route], strict=True)
        said = (route, seen, least_ns, most_ns)
        assert len(seen) == 3, said
        assert all(ns <= most for ns, most in zip(seen, most_ns, strict=True)), said
        # A busy machine may stop a thread between its look at the clock and the call.
        assert any(ns >= least - 500_000 for ns, least in zip(seen, least_ns, strict=True)), said


AT_ONCE = """
import resource

# So many that the kernel needs long to look at them all.
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
many = 4000 if most == resource.RLIM_INFINITY else min(most - 100, 4000)
resource.setrlimit(resource.RLIMIT_NOFILE, (many + 100, most))
reads, writes = os.pipe()
poll = select.poll()
poll.register(reads, select.POLLIN)
for _ in range(many - 1):
    poll.register(os.dup(reads), select.POLLIN)


def polled(timeout_ms):
    for _ in range(50):
        poll.poll(timeout_ms)


recorded("at once", lambda: polled(0))
recorded("sleep", lambda: [time.sleep(0) for _ in range(50)])
os.write(writes, b"x")
recorded("readable", lambda: polled(0))
print(json.dumps(rows()))
"""


@pytest.mark.slow
def test_a_poll_that_may_not_wait_is_no_io_however_long_it_takes(run_python: RunPython) -> None:
    jobs = _report(run_python(PRELUDE + AT_ONCE))
    assert [job["route"] for job in jobs] == ["at once", "sleep", "readable"]
    for job in jobs:
        assert sum(job["io_ns"].values()) == 0, job


GIL = """
HOG = "sum(range(3_000_000))"
SENDER = '''
import socket, struct, sys, time
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while peer.recv(1):
    time.sleep(0.02)
    peer.send(struct.pack("q", time.monotonic_ns()))
'''
listener = socket.create_server(("127.0.0.1", 0))
sender = subprocess.Popen([sys.executable, "-S", "-c", SENDER, str(listener.getsockname()[1])])
client, _ = listener.accept()
go = threading.Semaphore(0)
hog = compile(HOG, "hog", "eval")


def hold():
    while go.acquire() and not ended:
        # One call of C, which cannot be interrupted.
        eval(hog)


ended = False
holder = threading.Thread(target=hold)
holder.start()
truths = []


def request():
    client.send(b"g")
    go.release()
    begun_ns = time.monotonic_ns()
    sent_ns, = struct.unpack("q", client.recv(8))
    truths.append((sent_ns - begun_ns, time.monotonic_ns() - sent_ns))


for turn in range(6):
    recorded("request", request)
    time.sleep(0.05)
ended = True
go.release()
client.close()
sender.wait()
print(json.dumps([truths, rows(), _native.calls_state()]))
"""


@pytest.mark.slow
def test_a_reply_that_waits_for_the_gil_is_io_until_it_came_and_wait_from_then_on(run_python: RunPython) -> None:
    truths, jobs, state = _report(run_python(PRELUDE + GIL))
    assert len(jobs) == len(truths) == 6
    assert state["stamps"] >= 6
    seen = [(job["io_ns"].get("socket", 0), job["wait_ns"].get("gil", 0)) for job in jobs]
    both = zip(seen, truths, strict=True)
    right = [_close(io, true_io) and _close(gil, true_gil) for (io, gil), (true_io, true_gil) in both]
    assert any(right), list(zip(seen, truths, strict=True))


UNCHANGED = """
import array, errno, signal

client, server = peer()
outcome = {}

# Ancillary bytes and flags: what the application would see without us.
client.send(b"one")
server.recv(1)
outcome["stamped"] = _native.calls_state()["stamps"]
bytes_, ancillary, flags, _ = server.recvmsg(16, 256)
outcome["recvmsg"] = [bytes_.decode(), len(ancillary), flags]
client.send(b"two")
bytes_, ancillary, flags, _ = server.recvmsg(16)
outcome["recvmsg_bare"] = [bytes_.decode(), len(ancillary), flags]
outcome["option"] = server.getsockopt(socket.SOL_SOCKET, 35)

# A copy of a stamped descriptor.
copied = socket.socket(fileno=os.dup(client.fileno()))
server.send(b"three")
bytes_, ancillary, flags, _ = copied.recvmsg(16)
outcome["copy"] = [bytes_.decode(), len(ancillary), flags]
copied.close()

# Errors keep their number.
server.setblocking(False)
for name, act in {
    "again": lambda: server.recv(1),
    "bad": lambda: os.read(1000, 1),
    "refused": lambda: socket.create_connection(("127.0.0.1", 1)),
    "not_a_socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, os.dup(0)).recv(1),
    "no_child": lambda: os.waitpid(-1, 0),
}.items():
    try:
        act()
    except OSError as error:
        outcome[name] = errno.errorcode[error.errno]

# Nothing to read: at once, on a stamped socket too.
client2, server2 = peer()
outcome["empty"] = os.read(server2.fileno(), 0).decode()
# A descriptor that means something else by now.
number = server2.fileno()
pipe_from, pipe_to = os.pipe()
os.dup2(pipe_from, number)
os.write(pipe_to, b"pipe")
outcome["dup2"] = os.read(number, 9).decode()
left, right = socket.socketpair()
client3, server3 = peer()
os.dup2(right.fileno(), server3.fileno())
before = len(os.listdir("/proc/self/fd"))
socket.send_fds(left, [b"fds"], [pipe_from, pipe_to])
outcome["rights"] = [server3.recv(9).decode(), len(os.listdir("/proc/self/fd")) - before]

# The peer's reset is the application's to see.
client4, server4 = peer()
server4.send(b"unread")
client4.send(b"y")
server4.recv(1)
client4.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
client4.close()
try:
    server4.recv(1)
except OSError as error:
    outcome["reset"] = errno.errorcode[error.errno]

# Signals during a blocked call.
ticks = []
signal.signal(signal.SIGALRM, lambda *_: ticks.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
client5, server5 = peer()
in_a_moment(lambda: client5.send(b"z"), 0.2)
outcome["signals"] = [server5.recv(1).decode(), len(ticks) > 3]
signal.setitimer(signal.ITIMER_REAL, 0)

# Fork, thread and exec.
pid = os.fork()
if pid == 0:
    server5.setblocking(False)
    try:
        server5.recv(1)
    except BlockingIOError:
        thread = threading.Thread(target=time.sleep, args=(0.01,))
        thread.start()
        thread.join()
        os.execv(sys.executable, [sys.executable, "-S", "-c", "raise SystemExit(7)"])
outcome["child"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

# Back to where it was.
_native.calls_uninstall()
state = _native.calls_state()
outcome["after"] = [state["installed"], server5.getsockopt(socket.SOL_SOCKET, 35)]
client5.send(b"w")
outcome["still"] = server5.recv(1).decode()
print(json.dumps(outcome))
"""


@pytest.mark.slow
def test_the_application_sees_what_it_would_see_without_us(run_python: RunPython) -> None:
    outcome = _report(run_python(PRELUDE + UNCHANGED))
    # The kernel begins to stamp a moment after it is asked to: the first bytes may have come before.
    assert outcome.pop("stamped") in (0, 1)
    assert outcome == {
        "recvmsg": ["ne", 0, 0],
        "recvmsg_bare": ["two", 0, 0],
        "option": 0,
        "copy": ["three", 0, 0],
        "again": "EAGAIN",
        "bad": "EBADF",
        "refused": "ECONNREFUSED",
        "not_a_socket": "ENOTSOCK",
        "no_child": "ECHILD",
        "empty": "",
        "dup2": "pipe",
        "rights": ["fds", 0],
        "reset": "ECONNRESET",
        "signals": ["z", True],
        "child": 7,
        "after": [False, 0],
        "still": "w",
    }


ARRIVAL = """
SENDER = '''
import socket, struct, sys, time
for turn in range(6):
    peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    peer.send(struct.pack("q", time.monotonic_ns()))
    peer.recv(1)
'''
listener = socket.create_server(("127.0.0.1", 0))
sender = subprocess.Popen([sys.executable, "-S", "-c", SENDER, str(listener.getsockname()[1])])
lateness = []
for turn in range(6):
    select.select([listener], [], [])
    # The server is late: the request waits in the accept queue.
    time.sleep(0.03)
    server, _ = listener.accept()
    sent_ns, = struct.unpack("q", server.recv(8))
    arrival_ns, clock = recorder.arrival(server.fileno())
    job = recorder.open(arrival_ns=arrival_ns, clock=clock, host="test")
    recorder.close(job)
    lateness.append((clock, arrival_ns - sent_ns))
    server.send(b".")
sender.wait()
print(json.dumps(lateness))
"""


@pytest.mark.slow
def test_a_request_arrives_when_the_kernel_got_it_though_nobody_accepted_it_yet(run_python: RunPython) -> None:
    lateness = _report(run_python(PRELUDE + ARRIVAL))
    assert [clock for clock, _ in lateness] == ["kernel"] * 6
    assert any(abs(late_ns) < 500_000 for _, late_ns in lateness), lateness


UNSTAMPED = """
folder = tempfile.mkdtemp()
listener = socket.socket(socket.AF_UNIX)
listener.bind(folder + "/s")
listener.listen(8)

def accept():
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(folder + "/s")
    begin_ns = time.monotonic_ns()
    server, _ = listener.accept()
    return peer, server, begin_ns, time.monotonic_ns()

def read(server):
    server.recv(1)
    return recorder.arrival(server.fileno())

# It waits in a pool's queue, with its bytes.
peer, server, begin_ns, accepted_ns = accept()
peer.send(b"1")
time.sleep(0.03)
arrival_ns, clock = read(server)
queued = [clock, begin_ns <= arrival_ns <= accepted_ns]

# It rests before its first request, and again before its second.
later = []
peer, server, begin_ns, accepted_ns = accept()
for wait in (lambda: select.select([server], [], []), lambda: None):
    before_ns = time.monotonic_ns()
    sender = threading.Timer(0.03, lambda: peer.send(b"1"))
    sender.start()
    wait()
    arrival_ns, clock = read(server)
    later.append([clock, before_ns + 30_000_000 <= arrival_ns <= time.monotonic_ns()])
    sender.join()

# The recorder was off while it was read.
recorder.off()
peer.send(b"1")
server.recv(1)
recorder.on()
unseen = recorder.arrival(server.fileno())
print(json.dumps({"queued": queued, "later": later, "unseen": unseen, "no socket": recorder.arrival(1)}))
"""


@pytest.mark.slow
def test_without_a_stamp_an_arrival_is_bounded_by_what_was_waited_for(run_python: RunPython) -> None:
    assert _report(run_python(PRELUDE + UNSTAMPED)) == {
        "queued": ["accept", True],
        "later": [["accept", True], ["accept", True]],
        "unseen": [0, "handler"],
        "no socket": [0, "handler"],
    }


LATER = """
import ctypes
import ctypes.util

before = _native.calls_state()
assert "_sqlite3" not in sys.modules
import sqlite3
_native.calls_rescan()
print(json.dumps([before, _native.calls_state()]))
"""


def test_objects_loaded_later_are_found(run_python: RunPython) -> None:
    before, after = _report(run_python(PRELUDE + LATER))
    assert after["objects"] > before["objects"]
    assert after["slots"] > before["slots"]


SAMPLED = """
_native.sampler_start()
_native.sampler_start()


def pricing():
    return sum(number * number for number in range(400_000))


def report():
    for _ in range(10):
        pricing()


def victim():
    for _ in range(12):
        time.sleep(0.005)


# Nobody waits: nobody is looked at.
recorded("alone", pricing)
alone = _native.calls_state()["samples"]
for turn in range(20):
    threads = [threading.Thread(target=recorded, args=(act.__name__, act)) for act in (report, victim)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if _native.calls_state()["samples"] >= 5:
        break
_native.sampler_stop()
_native.sampler_stop()
recorder.stop()
stacks = [(row.culprit, row.stack) for row in open_recording(folder).stacks]
pid = os.fork()
if pid == 0:
    _native.sampler_start()
    os._exit(len([name for name in os.listdir("/proc/self/task")]))
tasks = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
_native.sampler_start()
print(json.dumps([alone, stacks, tasks]))
"""


@pytest.mark.slow
def test_a_culprit_is_looked_at_only_while_somebody_waits(run_python: RunPython) -> None:
    alone, stacks, tasks = _report(run_python(PRELUDE + SAMPLED))
    assert alone == 0
    of_report = [stack for culprit, stack in stacks if culprit == "report"]
    assert any(";pricing (<string>:" in stack for stack in of_report), stacks
    assert tasks == 2


POSTGRES = """
import psycopg

with psycopg.connect(sys.argv[1]) as connection:
    _native.calls_rescan()
    recorded("query", lambda: connection.execute("select pg_sleep(0.03)"))
print(json.dumps([rows(), _native.calls_state()]))
"""


@pytest.mark.slow
@pytest.mark.system
def test_a_driver_in_c_is_seen_too(run_python: RunPython, postgres: str) -> None:
    jobs, _ = _report(run_python(PRELUDE + POSTGRES, postgres))
    (job,) = jobs
    assert sum(job["io_ns"].values()) >= 30_000_000


ENCRYPTED = """
certificate, key = sys.argv[1:3]
inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
inside.load_cert_chain(certificate, key)
outside = ssl.create_default_context(cafile=certificate)
client, server = peer()


def serve():
    global server
    server = inside.wrap_socket(server, server_side=True)
    server.recv(1)
    time.sleep(0.03)
    server.send(b"x")


serving = threading.Thread(target=serve)
serving.start()
client = outside.wrap_socket(client, server_hostname="localhost")
_native.calls_rescan()
client.send(b"y")
before = _native.calls_state()["stamps"]
recorded("tls", lambda: client.recv(1))
serving.join()
print(json.dumps([rows(), _native.calls_state()["stamps"] - before]))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl program (apt: openssl)")
def test_encrypted_bytes_are_stamped_where_openssl_reads_them(run_python: RunPython, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    names = ["-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*request, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    jobs, stamps = _report(run_python(PRELUDE + ENCRYPTED, str(certificate), str(key)))
    (job,) = jobs
    assert job["io_ns"]["socket"] >= 29_000_000
    assert stamps >= 1
