"""`greenlane lab accept`: usage, and an end by Ctrl-C that leaves nobody behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import pytest

from greenlane_tools.lab.accept.contenders import CURRENT, SERVERS, Recipe, contenders, existing, limited, reason
from greenlane_tools.lab.accept.kernel import MECHANISMS, split
from greenlane_tools.lab.accept.measuring import Accepting, Kernel, Limit, Row
from greenlane_tools.lab.accept.runner import shown, tables, typical_burst
from greenlane_tools.lab.listeners import Listener, held, listening, of_text
from greenlane_tools.lab.processes import descendants

GREENLANE = str(Path(sys.executable).with_name("greenlane"))


def environment(root: Path) -> Path:
    """A finished environment whose interpreter is this one: nothing is installed."""
    folder = root / SERVERS["gunicorn"].recipe.folder
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    versions = {name: metadata.version(name) for name in ("gunicorn", "gevent")}
    (folder / "ready.json").write_text(json.dumps(versions))
    return root


@pytest.mark.slow
def test_wrong_names_are_usage_errors(tmp_path: Path):
    for arguments in (["--servers", "gunicorm"], ["--sockets", "udp"], ["--workers", "0"]):
        done = subprocess.run(
            [GREENLANE, "lab", "accept", "--out", str(tmp_path), *arguments],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 2 and "hint:" in done.stderr, done.stderr


@pytest.mark.system
def test_ctrl_c_ends_every_server(tmp_path: Path):
    command = [GREENLANE, "lab", "accept", "--servers", "gunicorn", "--sockets", "unix", "--out", str(tmp_path / "out")]
    running = subprocess.Popen(
        [*command, "--environments", str(environment(tmp_path))], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        text=True, env=os.environ,
    )  # fmt: skip
    with running:
        try:
            found = _whole_service(running)
            running.send_signal(signal.SIGINT)
            code = running.wait(30)
            said = running.stderr.read() if running.stderr else ""
        finally:
            running.kill()
    assert code == 130, said
    until_s = time.monotonic() + 20
    while (left := [pid for pid in found if _runs(pid)]) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not left


def _runs(pid: int) -> bool:
    """It is there, and no zombie that waits for its new parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _whole_service(running: subprocess.Popen[str]) -> list[int]:
    """Itself, gunicorn's master and four workers."""
    until_s = time.monotonic() + 40
    while time.monotonic() < until_s:
        found = descendants(running.pid)
        if len(found) >= 6:
            return found
        assert running.poll() is None, running.stderr.read() if running.stderr else ""
        time.sleep(0.05)
    raise AssertionError("no service within 40 s")


# --- Throw-away environments: what cannot be installed is left out with its reason, nothing half-made is used.


def test_the_folder_names_server_version_and_interpreter():
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    assert Recipe("gunicorn", "20.0.4").folder == f"gunicorn-20.0.4-{version}"
    assert Recipe("uvicorn", CURRENT, ("uvloop",)).requirements() == ["uvicorn", "uvloop"]
    assert Recipe("gunicorn", "20.0.4", ("setuptools<81",)).requirements() == ["gunicorn==20.0.4", "setuptools<81"]


def test_an_environment_that_was_not_finished_is_not_used(tmp_path: Path):
    recipe = Recipe("gunicorn", "20.0.4")
    folder = tmp_path / recipe.folder
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").touch()
    assert existing(recipe, tmp_path) is None
    (folder / "ready.json").write_text(json.dumps({"gunicorn": "20.0.4"}))
    found = existing(recipe, tmp_path)
    assert found is not None and found.versions == {"gunicorn": "20.0.4"}


def test_without_a_connection_the_reason_is_that_one_is_offline():
    said = (
        "WARNING: Retrying … after connection broken by 'NewConnectionError(… Temporary failure in name resolution)'\n"
    )
    assert reason(f"{said}ERROR: No matching distribution found for gunicorn") == (
        "offline: pip cannot reach the package index"
    )
    assert reason("ERROR: No matching distribution found for gunicorn==0\n[notice] a new pip") == (
        "pip: ERROR: No matching distribution found for gunicorn==0"
    )


def test_the_interpreter_is_named_wherever_the_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    recipe = Recipe("gunicorn", "20.0.4")
    (tmp_path / recipe.folder / "bin").mkdir(parents=True)
    (tmp_path / recipe.folder / "bin" / "python").touch()
    (tmp_path / recipe.folder / "ready.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    found = existing(recipe, Path())
    assert found is not None and found.python == tmp_path / recipe.folder / "bin" / "python"


# --- Four processes wait for connections: all are answered, whichever process is chosen. No order is expected.


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_connection_is_answered_and_only_reuse_port_has_a_listener_each(mechanism: str):
    found = split(mechanism, 4, 40)
    assert sum(found.counts) == 40
    assert found.listeners == (4 if mechanism == "reuse-port" else 1)


# --- Listening sockets are read from /proc as the kernel prints them.


TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7130 00000000:0000 0A 00000000:00000008 00:00000000 00000000     0        0 3625101 9 0000 100 0 0 10 0
   1: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1065 1 0000 100 0 0 10 0
   2: 0100007F:7130 0100007F:A1B2 01 00000000:00000000 00:00000000 00000000     0        0 99 1 0000 100 0 0 10 0
"""
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 77 1
"""
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
0000000088d959fb: 00000002 00000000 00010000 0001 01 3625045 /run/with space.sock
00000000e7767fc3: 00000003 00000000 00000000 0001 03 3624184 /run/with space.sock
00000000e7767fc4: 00000002 00000000 00010000 0001 01 5 @hidden
00000000e7767fc5: 00000002 00000000 00010000 0001 01 6
"""


def test_a_listener_is_a_line_in_state_0a():
    found = of_text("tcp", TCP)
    assert found == [Listener("tcp", "127.0.0.1:28976", 3625101), Listener("tcp", "0.0.0.0:2024", 1065)]
    assert found[0].port == 28976


def test_an_ipv6_address_is_read_in_the_words_of_this_machine():
    assert of_text("tcp6", TCP6) == [Listener("tcp6", "[::1]:8080", 77)]


def test_a_unix_listener_has_a_path_and_accepts_connections():
    assert of_text("unix", UNIX) == [Listener("unix", "/run/with space.sock", 3625045), Listener("unix", "@hidden", 5)]


def test_sockets_with_so_reuseport_are_as_many_listeners_and_one_that_only_binds_is_none():
    with socket.socket() as first, socket.socket() as second, socket.socket() as silent:
        for one in (first, second, silent):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        first.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{first.getsockname()[1]}"
        second.bind(first.getsockname())
        silent.bind(first.getsockname())
        first.listen()
        assert len(listening(address)) == 1
        second.listen()
        found = listening(address)
        assert len(found) == 2
        mine = held([os.getpid()])
        assert all(mine[one.inode] == {os.getpid()} for one in found)


def test_a_unix_socket_is_found_by_its_path(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "s"))
        assert listening(f"unix:{tmp_path / 's'}") == []
        one.listen()
        assert [found.family for found in listening(f"unix:{tmp_path / 's'}")] == ["unix"]


def test_a_process_that_is_gone_holds_nothing():
    assert held([2**22 + 1]) == {}


# --- What is shown of the rows.


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
