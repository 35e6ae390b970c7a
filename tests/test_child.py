"""The process under test is awaited without sleeping, and never outlives its test."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import sys
import tomllib
from collections.abc import Mapping, Sequence
from email.message import Message
from typing import Any

import pytest

from greenlane import __version__
from greenlane.cli import extra
from greenlane.errors import PlatformError
from tests.child import Child, free_port
from tests.where import ROOT

LISTEN = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""
FORK_AND_TELL = """
import os, signal
child = os.fork()
if child:
    print("grandchild", child, flush=True)
signal.pause()
"""


def test_free_ports_are_below_the_ephemeral_range_and_differ() -> None:
    ports = {free_port() for _ in range(20)}
    assert len(ports) == 20
    assert max(ports) < 32768


@pytest.mark.slow
def test_a_server_is_ready_when_its_port_accepts_and_is_gone_after_the_block() -> None:
    port = free_port()
    with Child([sys.executable, "-c", LISTEN, str(port)]) as server:
        server.wait_port(port)
        assert server.wait_output("^listening$")
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        pass


@pytest.mark.slow
@pytest.mark.gate
def test_what_a_server_forked_ends_with_it() -> None:
    with Child([sys.executable, "-c", FORK_AND_TELL]) as server:
        grandchild = int(server.wait_output(r"grandchild (\d+)")[1])
        ended = os.pidfd_open(grandchild)
        try:
            assert server.end() == -signal.SIGTERM
            assert select.select([ended], [], [], 5)[0], "the forked process still runs"
        finally:
            os.close(ended)


@pytest.mark.slow
def test_a_server_that_ends_early_is_told_with_its_output() -> None:
    with (
        Child([sys.executable, "-c", "print('no such setting'); raise SystemExit(3)"]) as server,
        pytest.raises(AssertionError, match="no such setting"),
    ):
        server.wait_output("never printed")


# --- What an extra installs, and what a command says without it.


PROJECTS: Mapping[str, Any] = {
    path.parent.name: tomllib.loads(path.read_text("utf-8"))["project"]
    for path in ROOT.glob("packages/*/pyproject.toml")
}


def installed_by(wanted: str) -> set[str]:
    """Names of all distributions that `pip install wanted` asks for: for our own with what those ask for in turn."""
    name, extras = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", wanted).groups()  # type: ignore[union-attr]
    if name not in PROJECTS:
        return {name}
    asked: Sequence[str] = [
        *PROJECTS[name]["dependencies"],
        *(each for one in (extras or "").split(",") if one for each in PROJECTS[name]["optional-dependencies"][one]),
    ]
    return {name}.union(*map(installed_by, asked))


def test_the_diagnosis_installs_no_package_but_ours() -> None:
    assert installed_by("greenlane[tools]") == {"greenlane", "greenlane-tools", "greenlane-serve"}


@pytest.mark.parametrize(
    ("wanted", "packages"),
    [
        ("greenlane", {"greenlane"}),
        ("greenlane[serve]", {"gunicorn", "uvicorn", "httptools", "watchfiles", "pyyaml"}),
        ("greenlane[lab]", {"numpy", "gunicorn", "uvicorn", "flask"}),
        ("greenlane[demo]", {"numpy", "gunicorn", "flask", "gevent"}),
    ],
)
def test_what_starts_servers_installs_them(wanted: str, packages: set[str]) -> None:
    assert packages <= installed_by(wanted)


@pytest.mark.parametrize("is_release", [True, False])
def test_a_hint_takes_our_packages_from_the_index_only_in_a_release(
    is_release: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Message()
    if is_release:
        found["Project-URL"] = "Source, https://forge.example/somebody/greenlane"
    monkeypatch.setattr(extra, "metadata", lambda name: found)
    wheels = "" if is_release else "--find-links dist "
    assert extra.install("tools") == f"pip install {wheels}'greenlane[tools]=={__version__}'"
    with pytest.raises(PlatformError, match=re.escape(extra.install("lab"))), extra.needed("lab", "run a scenario"):
        raise ModuleNotFoundError(name="numpy")


def test_no_other_hint_names_a_package_of_ours() -> None:
    sources = [path for path in ROOT.glob("packages/*/src/**/*.py") if path.name != "extra.py"]
    wrong = [
        f"{path}: {line}"
        for path in sources
        for line in re.findall(r".*pip install[^\n]*'greenlane.*", path.read_text())
    ]
    assert not wrong
