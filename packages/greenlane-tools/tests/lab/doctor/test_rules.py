"""Each rule speaks where it should and is silent elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from greenlane.errors import SettingsError
from greenlane_tools.lab.doctor.command import parse
from greenlane_tools.lab.doctor.examining import examined
from greenlane_tools.lab.doctor.subject import Kernel, Setting, Subject, Times

REFUSES = Kernel("6.18", "EOPNOTSUPP", 4096, False, {"/tmp": "tmpfs"})
TAKES = Kernel("5.10", "", 4096, False, {"/tmp": "tmpfs"})
GUNICORN: dict[str, Any] = {
    "workers": 4, "worker_connections": 1000, "threads": 1, "keepalive": 2, "timeout": 30, "backlog": 2048,
    "worker_class": "sync", "reuse_port": False, "enable_backlog_metric": False, "statsd_host": None,
    "preload_app": False, "max_requests": 0, "max_requests_jitter": 0, "dirty_workers": 0, "dirty_apps": [],
    "worker_tmp_dir": None, "asgi_loop": "auto",
}  # fmt: skip
NEW = {"socket_per_worker": True, "max_accept_one": True, "gevent_patched": False, "asgi_limits": False}
OLD = {"socket_per_worker": False, "max_accept_one": False, "gevent_patched": False}


def gunicorn(kind: str, *, new: bool = True, kernel: Kernel = REFUSES, unix: bool = False, **given: Any) -> Subject:
    settings = {name: Setting(value, "default") for name, value in {**GUNICORN, "worker_class": kind}.items()}
    times = given.pop("times", None)
    versions = given.pop("versions", {})
    mechanics = {**(NEW if new else OLD), **given.pop("mechanics", {})}
    settings.update({name: Setting(value, "command line") for name, value in given.items()})
    version, addresses = "27.0.1" if new else "20.0.4", ("unix:/x",) if unix else (":8000",)
    return Subject(
        "gunicorn", version, "3.11.7", settings, addresses, kind, kind, "", mechanics, versions, kernel, times
    )


def click(server: str, version: str, *, unix: bool = False, **given: Any) -> Subject:
    versions = given.pop("versions", {})
    defaults = {"workers": 4, "loop": "auto", "backlog": 2048, "timeout_keep_alive": 5, "http1_keep_alive": True}
    settings = {name: Setting(value, "default") for name, value in defaults.items()}
    settings.update({name: Setting(value, "command line") for name, value in given.items()})
    mechanics = {"accepts_backlog_at_once": True}
    return Subject(
        server, version, "3.11.7", settings, ("unix:/x",) if unix else (":8000",), server, server, "", mechanics,
        versions, REFUSES,
    )  # fmt: skip


def verdicts(subject: Subject) -> dict[str, str]:
    """Verdict by setting, without notes."""
    return {one.setting: one.verdict for one in examined(subject) if one.verdict != "note"}


def test_a_plain_sync_gunicorn_has_nothing_found():
    assert examined(gunicorn("sync")) == []


@pytest.mark.parametrize(
    ("subject", "verdict"),
    [
        (gunicorn("gevent", new=False, reuse_port=True), "does nothing"),
        (gunicorn("gevent", reuse_port=True), "is not what it seems"),
        (gunicorn("gevent", reuse_port=True, workers=1), "does nothing"),
        (gunicorn("gevent", reuse_port=True, unix=True), "does not start"),
        (gunicorn("gevent", reuse_port=True, unix=True, new=False), "does not start"),
        (gunicorn("gevent", reuse_port=True, unix=True, kernel=TAKES), "harms"),
        (gunicorn("gevent", reuse_port=True, unix=True, kernel=TAKES, new=False), "does nothing"),
    ],
)
def test_reuse_port_depends_on_version_socket_and_kernel(subject: Subject, verdict: str):
    assert verdicts(subject)["reuse_port"] == verdict


def test_a_gevent_worker_before_20_1_takes_a_hundred_at_once():
    assert verdicts(gunicorn("gevent", new=False))["max_accept"] == "harms"
    assert "max_accept" not in verdicts(gunicorn("gevent"))
    assert "max_accept" not in verdicts(gunicorn("gevent", new=False, workers=1))


def test_asyncio_takes_the_backlog_at_once_and_uvloop_does_not():
    assert verdicts(gunicorn("asgi"))["backlog"] == "is not what it seems"
    assert "backlog" not in verdicts(gunicorn("asgi", versions={"uvloop": "0.23"}))
    assert verdicts(gunicorn("asgi", versions={"uvloop": "0.23"}, asgi_loop="asyncio"))["backlog"]
    assert verdicts(click("uvicorn", "0.54.0"))["backlog"] == "is not what it seems"
    assert "backlog" not in verdicts(click("uvicorn", "0.54.0", versions={"uvloop": "0.23"}))


@pytest.mark.parametrize("kind", ["sync", "asgi", "uvicorn", "tornado"])
def test_worker_connections_is_read_by_few(kind: str):
    assert verdicts(gunicorn(kind, worker_connections=12))["worker_connections"] == "does nothing"
    assert "worker_connections" not in verdicts(gunicorn(kind))


def test_a_low_limit_with_keep_alive_harms_and_without_it_does_not():
    assert verdicts(gunicorn("gevent", worker_connections=12))["worker_connections"] == "harms"
    assert "worker_connections" not in verdicts(gunicorn("gevent", worker_connections=12, keepalive=0))


def test_a_limit_is_compared_with_what_fills_a_core():
    times = Times(5, 55)
    assert times.enough == 12
    found = next(one for one in examined(gunicorn("gevent", times=times)) if one.setting == "worker_connections")
    assert found.verdict == "harms" and "12 requests in progress fill a core; 1000 of them wait 5.0 s" in found.because
    assert "worker_connections" not in verdicts(gunicorn("gevent", times=times, worker_connections=12, keepalive=0))


UNIX_METRIC = gunicorn("sync", enable_backlog_metric=True, statsd_host="h:1", unix=True)
HEALTH = click("uvicorn", "0.54.0", timeout_worker_healthcheck=5)


@pytest.mark.parametrize(
    ("subject", "setting", "verdict"),
    [
        (gunicorn("gevent", threads=4), "threads", "does nothing"),
        (gunicorn("sync", keepalive=5), "keepalive", "does nothing"),
        (gunicorn("gevent", timeout=60), "timeout", "is not what it seems"),
        (gunicorn("sync", backlog=9000), "backlog", "does nothing"),
        (gunicorn("gevent", preload_app=True), "preload_app", "harms"),
        (gunicorn("sync", max_requests_jitter=5), "max_requests_jitter", "does nothing"),
        (gunicorn("sync", dirty_workers=2), "dirty_workers", "does nothing"),
        (gunicorn("sync", enable_backlog_metric=True), "enable_backlog_metric", "does nothing"),
        (UNIX_METRIC, "enable_backlog_metric", "does nothing"),
        (gunicorn("gthread", threads=8), "worker_connections", "is not what it seems"),
        (gunicorn("gthread", threads=8, worker_connections=8), "keepalive", "does nothing"),
        (click("uvicorn", "0.54.0", limit_concurrency=20), "limit_concurrency", "harms"),
        (click("uvicorn", "0.54.0", reload=True), "workers", "does nothing"),
        (HEALTH, "timeout_worker_healthcheck", "is not what it seems"),
        (click("granian", "2.8.7", interface="wsgi", backpressure=8), "backpressure", "harms"),
        (click("granian", "2.8.7", interface="wsgi"), "workers", "is not what it seems"),
        (click("granian", "2.8.7", interface="asgi", blocking_threads=4), "blocking_threads", "does not start"),
    ],
)  # fmt: skip
def test_a_setting_that_does_nothing_or_harms_is_named(subject: Subject, setting: str, verdict: str):
    assert verdicts(subject)[setting] == verdict


@pytest.mark.parametrize(
    ("subject", "setting"),
    [
        (gunicorn("sync", timeout=60), "timeout"),
        (gunicorn("gevent", preload_app=True, mechanics={"gevent_patched": True}), "preload_app"),
        (gunicorn("sync", max_requests_jitter=5, max_requests=100), "max_requests_jitter"),
        (gunicorn("sync", enable_backlog_metric=True, statsd_host="h:1"), "enable_backlog_metric"),
        (gunicorn("gthread", threads=8, worker_connections=8, keepalive=0), "keepalive"),
        (click("granian", "2.7.9", interface="wsgi"), "workers"),
        (click("granian", "2.8.7", interface="wsgi", unix=True), "workers"),
        (click("uvicorn", "0.54.0", workers=1), "backlog"),
    ],
)
def test_a_setting_that_does_what_it_says_is_not(subject: Subject, setting: str):
    assert setting not in verdicts(subject)


def test_every_finding_has_a_reason_a_remedy_and_evidence():
    given = {"reuse_port": True, "worker_connections": 12, "threads": 2, "timeout": 5, "preload_app": True}
    subject = gunicorn("gevent", new=False, **given)
    found = examined(subject)
    assert len(found) >= 5
    assert all(one.because and one.remedy and one.evidence and one.origin for one in found)


# --- A command line is taken apart without running it.


BIN = str(Path(sys.executable).parent)


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A folder of PATH with scripts as pip writes them."""
    texts = {
        "gunicorn": f"#!{sys.executable}\n",
        "uvicorn": "#!/bin/sh\n'''exec' \"/a path/bin/python\" \"$0\" \"$@\"\n' '''\n",
        "granian": "#!/bin/sh\necho no\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def test_a_script_names_its_interpreter(scripts: Path):
    found = parse(["gunicorn", "-w", "4", "shop:app"], str(scripts))
    assert (found.server, found.python, found.arguments) == ("gunicorn", sys.executable, ("-w", "4", "shop:app"))


def test_a_script_with_a_long_interpreter_names_it_in_its_second_line(scripts: Path):
    assert parse([str(scripts / "uvicorn"), "shop:app"]).python == "/a path/bin/python"


@pytest.mark.parametrize("module", ["gunicorn", "gunicorn.app.wsgiapp"])
def test_a_module_is_run_by_the_interpreter_in_front_of_it(module: str):
    found = parse([sys.executable, "-X", "dev", "-u", "-m", module, "shop:app"])
    assert (found.server, found.python, found.arguments) == ("gunicorn", sys.executable, ("shop:app",))


def test_assignments_are_the_commands_environment_and_one_word_is_split(scripts: Path):
    found = parse([f"exec env A=1 GUNICORN_CMD_ARGS='-w 2' {scripts}/gunicorn shop:app"])
    assert found.env == {"A": "1", "GUNICORN_CMD_ARGS": "-w 2"}
    assert found.server == "gunicorn"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hypercorn-that-is-not-there"], "a program that can be run"),
        ([sys.executable, "shop.py"], "one that starts gunicorn, uvicorn, granian"),
        ([sys.executable, "-m", "http.server"], "one that starts gunicorn, uvicorn, granian"),
        (["A=1"], "one that starts gunicorn, uvicorn, granian"),
    ],
)
def test_what_starts_no_known_server_is_refused(words: list[str], said: str):
    with pytest.raises(SettingsError, match=said) as caught:
        parse(words)
    assert caught.value.hint


def test_a_script_that_is_no_python_is_refused(scripts: Path):
    with pytest.raises(SettingsError, match="a Python script"):
        parse(["granian", "shop:app"], str(scripts))
