"""The application by its name, its kind, and what is said when it is none."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from greenlane.errors import ServeError, SettingsError
from greenlane_serve.cli.serve import Watch
from greenlane_serve.processes import Notify, listen
from greenlane_serve.worker.application import kind_of, load, parts


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
