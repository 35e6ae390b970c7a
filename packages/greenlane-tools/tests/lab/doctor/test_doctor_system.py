"""The current servers of this environment, asked and started."""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from greenlane.errors import SettingsError
from greenlane_tools.lab.accept.contenders import SERVERS, Contender, Environment
from greenlane_tools.lab.accept.measuring import Amounts, accepting, served
from greenlane_tools.lab.doctor.command import Parsed, ask
from greenlane_tools.lab.doctor.examining import examined
from greenlane_tools.lab.doctor.live import look
from greenlane_tools.lab.doctor.subject import this_kernel

GREENLANE = str(Path(sys.executable).with_name("greenlane"))


def gunicorn(*arguments: str, **env: str) -> Parsed:
    return Parsed("gunicorn", sys.executable, arguments, env)


@pytest.mark.slow
def test_gunicorn_tells_its_effective_settings_and_who_set_them(tmp_path: Path):
    (tmp_path / "conf.py").write_text("print('talk')\nworkers = 3\ntimeout = 7\nthreads = 9\n")
    subject = ask(
        gunicorn("-c", str(tmp_path / "conf.py"), "-k", "gevent", "--threads", "2", "no_such_module:app",
                 GUNICORN_CMD_ARGS="--timeout 8 --backlog 64")
    )  # fmt: skip
    told = {name: (subject.settings[name].value, subject.settings[name].origin) for name in subject.settings}
    assert told["workers"] == (3, "configuration file")
    assert told["timeout"] == (8, "GUNICORN_CMD_ARGS")
    assert told["threads"] == (2, "command line")
    assert told["keepalive"][1] == "default"
    assert (subject.kind, subject.failure, subject.addresses) == ("gevent", "", ("127.0.0.1:8000",))
    assert subject.mechanics["socket_per_worker"] and subject.mechanics["max_accept_one"]


@pytest.mark.slow
def test_a_configuration_that_patches_is_seen(tmp_path: Path):
    (tmp_path / "conf.py").write_text("from gevent import monkey; monkey.patch_all()\n")
    assert ask(gunicorn("-c", str(tmp_path / "conf.py"), "-k", "gevent", "a:b")).mechanics["gevent_patched"]


@pytest.mark.slow
def test_a_worker_class_that_cannot_be_loaded_and_a_wrong_flag_are_told():
    assert "no_such_package" in ask(gunicorn("-k", "no_such_package.Worker", "a:b")).failure
    with pytest.raises(SettingsError, match="--no-such-flag"):
        ask(gunicorn("--no-such-flag", "a:b"))


@pytest.mark.slow
def test_greenlanes_own_worker_is_not_taken_for_a_gthread():
    subject = ask(gunicorn("-k", "greenlane.hosts.gunicorn.Worker", "-w", "4", "--worker-tmp-dir", "/dev/shm", "a:b"))
    assert (subject.kind, subject.failure) == ("unknown", "")
    assert examined(subject) == []


@pytest.mark.slow
@pytest.mark.parametrize("server", ["uvicorn", "granian"])
def test_uvicorn_and_granian_tell_theirs(server: str):
    env = {f"{server.upper()}_BACKLOG": "256"}
    subject = ask(Parsed(server, sys.executable, ("--workers", "3", "a:b"), env))
    assert (subject.settings["workers"].value, subject.settings["workers"].origin) == (3, "command line")
    assert (subject.settings["backlog"].value, subject.settings["backlog"].origin) == (256, "environment")


@pytest.mark.system
@pytest.mark.parametrize(("options", "listeners"), [((), 1), (("--reuse-port",), 4)])
@pytest.mark.gate
def test_listeners_are_counted_by_starting_the_command(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], listeners: int
):
    monkeypatch.chdir(Path(__file__).parent)
    parsed = gunicorn("-w", "4", "-b:8000", "--no-control-socket", *options, "shop:app")
    seen = look(parsed, ask(parsed))
    # A shared listener is the master's too.
    assert seen.listeners == listeners and seen.processes >= 4, seen.said


def doctor(folder: Path, *arguments: str) -> tuple[int, str, str]:
    import subprocess

    done = subprocess.run(
        [GREENLANE, "doctor", *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=folder,
        env=os.environ,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.system
def test_question_6_reuse_port_on_a_unix_socket_is_named_with_its_reason(tmp_path: Path):
    command = [
        "--",
        sys.executable,
        "-m",
        "gunicorn",
        "-k",
        "gevent",
        "--reuse-port",
        "-b",
        "unix:/tmp/x.sock",
        "-w",
        "4",
    ]
    code, out, err = doctor(tmp_path, "--json", *command, "shop:app")
    assert code == int(bool(this_kernel().unix_reuse_port)), err
    rows: list[dict[str, Any]] = json.loads(out)["rows"]
    found = next(row for row in rows if row.get("setting") == "reuse_port")
    assert found["verdict"] == ("does not start" if this_kernel().unix_reuse_port else "harms")
    assert found["origin"] == "command line" and found["evidence"] and found["remedy"]
    assert doctor(tmp_path, "--strict", *command, "shop:app")[0] == 1


def test_a_worker_class_that_is_misspelt_fails_the_examination(tmp_path: Path):
    command = ("--", sys.executable, "-m", "gunicorn", "-k", "greenlane.hosts.gunicorn.Wroker")
    code, out, err = doctor(tmp_path, *command, "shop:app")
    assert (code, "does not start" in out, "correct its name" in out) == (1, True, True), err


@pytest.mark.slow
def test_usage_errors_exit_2_with_a_hint(tmp_path: Path):
    for arguments in (("--", "no-such-server"), ("--cpu-ms", "5", "--", sys.executable, "-m", "gunicorn")):
        code, _, err = doctor(tmp_path, *arguments)
        assert code == 2 and "hint:" in err, arguments


@pytest.mark.system
def test_question_5_asyncio_takes_a_burst_at_once_and_the_doctor_says_so(tmp_path: Path):
    here = Environment(Path(sys.executable), {"uvicorn": metadata.version("uvicorn")})
    contender = Contender(SERVERS["uvicorn"], "unix")
    with served(contender, here, 4) as service:
        row = accepting(contender, here.versions["uvicorn"], service, Amounts(share_s=0.3, bursts=4, kept_requests=8))
    assert row.accepted_at_once is not None and row.accepted_at_once > 1
    subject = ask(Parsed("uvicorn", sys.executable, ("--workers", "4", "--loop", "asyncio", "shop:app")))
    assert (
        "takes every waiting connection" in next(one for one in examined(subject) if one.setting == "backlog").because
    )
