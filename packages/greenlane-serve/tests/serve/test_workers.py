"""The application by its name, its kind, and what is said when it is none."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.serve.test_group import Acts

from greenlane.cli.main import main
from greenlane.errors import ServeError, SettingsError
from greenlane.settings import load as settings_from
from greenlane.settings import settings_of
from greenlane.settings.refusal import SERVERS
from greenlane_serve.cli.serve import Watch
from greenlane_serve.group import Group, Slot, State
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.lanes import SHARED
from greenlane_serve.measured import Cores, CoreTimes, core_times_of
from greenlane_serve.processes import Notify, listen
from greenlane_serve.settings import ServeSettings
from greenlane_serve.staff import Blocked
from greenlane_serve.worker.application import kind_of, load, parts
from tests.where import ROOT


def test_an_application_is_found_by_its_name() -> None:
    assert parts("a.b:c.d") == ("a.b", "c.d")
    assert parts("a") == ("a", "app")
    assert load("greenlane_serve.worker.application:load") is load
    with pytest.raises(SettingsError, match="module:attribute"):
        parts("a b:c")
    with pytest.raises(SettingsError, match="application='nowhere_at_all:app', expected a module that can be imported"):
        load("nowhere_at_all:app")
    with pytest.raises(SettingsError, match="application='os:nope', expected an attribute that os has"):
        load("os:nope")
    with pytest.raises(SettingsError, match="application='os:sep', expected something that can be called, not str"):
        load("os:sep")


def test_an_application_may_be_what_a_factory_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "factory_of_ours.py").write_text("def create():\n    return print\ndef nothing():\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert parts("factory_of_ours:create()") == ("factory_of_ours", "create")
    assert load("factory_of_ours:create()") is print
    with pytest.raises(SettingsError, match="expected something that can be called, not NoneType"):
        load("factory_of_ours:nothing()")


def test_the_kind_of_an_application() -> None:
    def wsgi(environ: Any, start_response: Any) -> Any: ...

    async def asgi(scope: Any, receive: Any, send: Any) -> None: ...

    def asgi_that_returns_a_coroutine(scope: Any, receive: Any, send: Any) -> Any: ...

    class Wsgi:
        def __call__(self, environ: Any, start_response: Any, more: int = 0) -> Any: ...

    class Asgi:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...

    assert [kind_of(one) for one in (wsgi, Wsgi())] == ["wsgi", "wsgi"]
    assert [kind_of(one) for one in (asgi, asgi_that_returns_a_coroutine, Asgi())] == ["asgi"] * 3


def test_an_address_that_is_taken_or_none_is_told(tmp_path: Path, free_port: int) -> None:
    (held,) = listen([f"127.0.0.1:{free_port}"])
    with held:
        with pytest.raises(ServeError, match=r"Address already in use"):
            listen([str(tmp_path / "one"), f"127.0.0.1:{free_port}"])
        (again,) = listen([str(tmp_path / "one")])  # left by the attempt, and listened on by nobody
        with again, pytest.raises(ServeError, match="in use"):
            listen([str(tmp_path / "one")])
    with pytest.raises(SettingsError, match="a host and a port"):
        listen(["no.such.host.invalid:80"])


@pytest.mark.slow
def test_changed_code_is_noticed_and_what_tools_write_is_not(tmp_path: Path) -> None:
    changed = threading.Event()
    watch = Watch([tmp_path], changed.set)
    try:
        (tmp_path / "__pycache__").mkdir()
        (tmp_path / "__pycache__" / "one.py").touch()
        (tmp_path / "notes.txt").touch()
        assert not changed.wait(0.5)
        (tmp_path / "one.py").touch()
        assert changed.wait(10)
    finally:
        watch.close()


def test_systemd_is_told_where_it_asks(tmp_path: Path) -> None:
    Notify({}).ready()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        notify = Notify({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        for tell, told in (
            (notify.ready, b"READY=1"),
            (notify.reloading, b"RELOADING=1\nMONOTONIC_USEC="),
            (notify.stopping, b"STOPPING=1"),
        ):
            tell()
            assert systemd.recv(200).startswith(told)


# --- What processes got of the cores: shares between two looks, by our clock; and read from the kernel.


class Machine:
    """Processes that got so much, and a clock."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.got: dict[int, CoreTimes] = {}

    def cores(self) -> Cores:
        return Cores(lambda pid: self.got.get(pid), lambda: self.now_s)


def test_shares_are_of_the_time_since_the_last_look_at_that_process() -> None:
    machine = Machine()
    cores = machine.cores()
    machine.got = {1: CoreTimes(5e9, 1e9), 2: CoreTimes(0, 0)}
    assert cores.take([1, 2]) == {}, "nobody knows how long that took"
    machine.now_s += 2
    machine.got = {1: CoreTimes(5.5e9, 4e9), 2: CoreTimes(1e9, 0)}
    assert cores.take([1]) == {1: CoreTimes(0.25, 1.5)}
    machine.now_s += 2
    assert cores.take([1, 2]) == {1: CoreTimes(0, 0), 2: CoreTimes(0.25, 0)}, "2 was last asked about 4 s ago"


def test_threads_that_end_take_their_time_with_them_and_make_no_share_negative() -> None:
    machine = Machine()
    machine.got[1] = CoreTimes(5e9, 1e9)
    cores = machine.cores()
    cores.take([1])
    machine.now_s += 1
    machine.got[1] = CoreTimes(2e9, 1.5e9)
    assert cores.take([1]) == {1: CoreTimes(0, 0.5)}


def test_who_has_ended_is_left_out_and_forgotten() -> None:
    machine = Machine()
    machine.got[1] = CoreTimes(5e9, 1e9)
    cores = machine.cores()
    cores.take([1])
    del machine.got[1]
    machine.now_s += 1000
    assert cores.take([1]) == {}
    machine.got[1] = CoreTimes(9e9, 9e9)
    assert cores.take([1]) == {}, "another process of that number"


def test_the_kernel_tells_what_this_process_ran() -> None:
    before = core_times_of(os.getpid())
    if before is None:
        pytest.skip("this kernel has no schedstat")
    end_ns = time.thread_time_ns() + 20_000_000
    while time.thread_time_ns() < end_ns:
        pass
    after = core_times_of(os.getpid())
    assert after is not None
    # The kernel books a thread that runs at its tick: up to some ms late.
    assert after.ran - before.ran >= 10_000_000
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert core_times_of(ended.pid) is None


# --- Workers whose loop is blocked get nothing new; there is always one that does.


class Front(Runtime):
    """Takes every command."""

    def __init__(self) -> None:
        super().__init__(Path("nobody"))
        self.commands: list[str] = []

    def ask(self, command: str) -> str:
        self.commands.append(command.removeprefix(f"set server {SHARED}/"))
        return ""


class Service:
    def __init__(self, folder: Path) -> None:
        group = Group(SHARED, 2, folder, Acts(), stop_s=1.0)
        for slot in group.slots[:2]:
            slot.state, slot.open, slot.pid, slot.since_s = State.SERVING, True, int(slot.name[1:]), 1.0
        self.groups = {SHARED: group}
        self.runtime = Front()
        self.front = SimpleNamespace(runtime=self.runtime)
        self.turned_s: dict[str, float] = {}

    def last_turn_s(self, slot: Slot) -> float:
        return self.turned_s[slot.name]

    def say(self, text: str) -> None:
        """Nobody listens."""


def test_one_that_turns_again_is_open_before_another_is_shut(tmp_path: Path) -> None:
    """A backend without a server refuses at once."""
    service, blocked = Service(tmp_path), Blocked()
    for now_s, turned_s in (
        (100.0, {"w1": 100.0, "w2": 100.0}),
        (100.25, {"w1": 99.0, "w2": 100.2}),
        (100.5, {"w1": 100.4, "w2": 99.9}),
        (100.75, {"w1": 100.0, "w2": 100.0}),  # both: both stay open
    ):
        service.turned_s = turned_s
        blocked.look(service, now_s)  # type: ignore[arg-type]  # it needs no more of it
    assert service.runtime.commands == ["w1 state maint", "w1 state ready", "w2 state maint", "w2 state ready"]


# --- Names of gunicorn's and uvicorn's settings: ours, or refused with what to use.


# No setting: the CGI variable, systemd's, and one of our flags.
OTHERS = {"script_name", "listen_fds", "reload"}


def table() -> list[tuple[list[str], str]]:
    """(their names, what stands beside them) of each line of docs/serve.md."""
    page = (ROOT / "docs/serve.md").read_text("utf-8").partition("| gunicorn | uvicorn | here |")[2]
    rows = [line.strip("|").split("|") for line in page.partition("\n\n")[0].splitlines()[2:]]
    return [(re.findall(r"`-{0,2}([a-zA-Z0-9_-]+)`", one + two), here) for one, two, here in rows]


@pytest.mark.parametrize(("names", "here"), table(), ids=lambda one: one[0] if isinstance(one, list) else "")
def test_each_name_of_the_table_is_ours_or_refused_with_what_to_use(
    names: list[str], here: str, tmp_path: Path
) -> None:
    declared = settings_of(ServeSettings)
    for name in names:
        word = name.lower().replace("-", "_")
        if word in declared or word in OTHERS:
            assert f"`{word}`" in here or word in OTHERS
            continue
        file = tmp_path / "greenlane.toml"
        file.write_text(f"{word} = 1\n")
        with pytest.raises(SettingsError) as refused:
            settings_from(environ={}, file=file, kind=ServeSettings)
        assert refused.value.hint == SERVERS[word]
        ours = set(re.findall(r"`([a-z_:()]+)`", SERVERS[word]))
        assert not ours or ours & set(re.findall(r"`([a-z_:()]+)`", here)) or "none" in here


def test_flags_and_variables_are_refused_likewise(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "shop:app", "--preload"])
    assert ended.value.code == 2
    assert "each worker loads the application" in capsys.readouterr().err
    with pytest.raises(SettingsError, match="set `stop_s`"):
        settings_from(environ={"GREENLANE_TIMEOUT_GRACEFUL_SHUTDOWN": "5"}, kind=ServeSettings)
    with pytest.raises(SystemExit):
        main(["serve", "shop:app", "--worker"])
    assert "did you mean '--workers'?" in capsys.readouterr().err
