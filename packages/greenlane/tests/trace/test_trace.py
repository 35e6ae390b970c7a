"""What is changed in a process is what docs/guest.md says, and `off` and detaching put it back: every host and mode."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.trace.hosts import HOSTS, State, trace
from tests.trace.table import PAGE, kind_of, left, page

pytestmark = [pytest.mark.system, pytest.mark.slow]

_NEEDS = {
    "asgi": ("uvicorn", "uvloop"), "aiohttp": ("aiohttp",), "gunicorn": ("gunicorn",), "record uvloop": ("uvloop",),
    "record gevent": ("gevent",), "serve": ("greenlane_serve", "gunicorn"), "work": ("greenlane_work",),
}  # fmt: skip
#: A host with permits, and a program that is recorded. Each takes some seconds.
IN_GATE = {"gunicorn", "record gevent"}
MARKED_HOSTS = [pytest.param(host, marks=pytest.mark.gate if host in IN_GATE else ()) for host in HOSTS]
_traces: dict[str, State] = {}


def traced(host: str, folder: Path) -> State:
    for module in _NEEDS.get(host, ()):
        pytest.importorskip(module)
    if host not in _traces:
        _traces[host] = trace(host, folder)
    return _traces[host]


@pytest.mark.parametrize("host", HOSTS)
def test_off_puts_everything_back_but_what_switches_on_again(host: str, tmp_path: Path) -> None:
    assert left(host, traced(host, tmp_path)["off"], "off") == []


@pytest.mark.parametrize("host", HOSTS)
def test_on_again_brings_back_what_off_took(host: str, tmp_path: Path) -> None:
    """It may find more: what the program has imported since."""
    states = traced(host, tmp_path)
    gone = states["on"].keys() - states["on again"].keys()
    # A server with a thread for each request has none that has run a job when it is switched on: the watcher comes with
    # the second.
    assert {name for name in gone if "greenlane-gang" not in name} == set()
    assert [name for name in states["on again"] if kind_of(name) is None] == []


@pytest.mark.parametrize("host", MARKED_HOSTS)
def test_taken_out_the_process_is_as_if_we_had_not_come(host: str, tmp_path: Path) -> None:
    assert left(host, traced(host, tmp_path)["out"], "out") == []


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the page names what CPython 3.11 has")
@pytest.mark.gate
def test_the_page_is_the_truth(tmp_path: Path) -> None:
    """Remedy: `make docs`."""
    traces = {}
    for host in HOSTS:
        (at := tmp_path / host.replace(" ", "-")).mkdir()
        traces[host] = traced(host, at)
    assert page(traces) == PAGE.read_text(encoding="utf-8")
