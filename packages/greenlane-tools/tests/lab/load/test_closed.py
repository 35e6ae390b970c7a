"""A closed loop hides what an open one shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from greenlane.errors import HostError
from greenlane_tools.lab.load.closed import closed_loop, is_installed, read_log
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan, Poisson, Stream
from greenlane_tools.lab.samples import FAILED
from greenlane_tools.lab.statistics import quantile


def test_the_tool_s_log_becomes_samples_by_time() -> None:
    samples = read_log("closed", "1000020\t200\t7\n1000000\t200\t15\n1000030\t-1\t2\n")
    assert samples.scheduled_ns.tolist() == [0, 20_000, 30_000]
    assert samples.latency_ms().tolist() == [0.015, 0.007, 0.002]
    assert samples.status.tolist() == [200, 200, FAILED]


def test_a_tool_that_is_not_installed_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="apt-get install nghttp2-client"):
        closed_loop("closed", "127.0.0.1:1", seconds=1.0)


@pytest.mark.system
def test_nobody_listening_is_said(free_port: int) -> None:
    _needs_tool()
    with pytest.raises(HostError, match="a server that answers"):
        closed_loop("closed", f"127.0.0.1:{free_port}", seconds=0.2)


@pytest.mark.system
def test_a_stall_of_one_second_is_in_our_p99_and_not_in_that_of_a_closed_loop(
    start_process: Callable[..., Any], free_ports: Callable[[], int]
) -> None:
    _needs_tool()
    ports = [free_ports(), free_ports()]
    for port in ports:
        start_process([sys.executable, str(Path(__file__).with_name("stalling.py")), str(port)], port=port)
    stream = Stream("open", f"127.0.0.1:{ports[0]}", Poisson(500.0), connections="keep-alive")
    ours = generate(Plan("stall", 4.0, (stream,))).samples.answered()
    theirs = closed_loop("closed", f"127.0.0.1:{ports[1]}", connections=2, seconds=4.0).answered()
    shown = {name: (quantile(ms, 0.99), ms[-1]) for name, ms in (("open", ours), ("closed", theirs))}
    print(*(f"{name}: p99 {p99:.1f} ms, max {most:.0f} ms" for name, (p99, most) in shown.items()), sep="\n")
    # Both met it. A quarter of the open loop's requests were due meanwhile; of the closed loop's, one a connection.
    assert min(ours[-1], theirs[-1]) > 900
    assert quantile(ours, 0.99) > 900
    assert quantile(theirs, 0.99) < 450


def _needs_tool() -> None:
    if not is_installed():
        pytest.skip("h2load is not installed: `make test-system` installs it")
