"""`greenlane top` in a terminal of 80 x 24: what fits, keys, and that it leaves the terminal as it was."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from greenlane.cli.output import cell
from greenlane_tools.cli.top_screen import fitted

_SERVICE = """
import sys, time
from greenlane.settings import Settings
from greenlane.wiring.process import start
running = start(Settings(control_dir=sys.argv[1], mode="on"), host="test")
for number in range(30):
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": f"/a/rather/long/path/of/a/service/" + "x" * number}
    running.open(environ, time.monotonic_ns())
    running.permits.name(f"GET /a/rather/long/path/of/a/service/{number}")
    running.close()
print("ready", flush=True)
time.sleep(60)
"""
_COMMAND = [sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())", "top"]


def test_less_wanted_columns_go_before_names_are_cut() -> None:
    rows: list[dict[str, object]] = [{"route": "GET /" + "x" * 60, "jobs": 12, "p99_ms": 7.5, "p99_10s_ms": 1.0}]
    assert fitted(rows, ("route", "jobs", "p99_ms", "p99_10s_ms"), 0, cell)[1] == [*rows[0]]
    lines, columns = fitted(rows, ("route", "jobs", "p99_ms", "p99_10s_ms"), 40, cell)
    assert columns == ["route", "p99_ms"]
    assert lines[0]["route"] == "GET /" + "x" * 26 + "…"


@pytest.mark.slow
@pytest.mark.system
def test_a_terminal_of_80_columns_shows_whole_lines_and_takes_keys(tmp_path: Path, start_process: Any) -> None:
    service = start_process([sys.executable, "-c", _SERVICE, str(tmp_path)])
    service.wait_output("ready")
    with _terminal(["--control-dir", str(tmp_path), "--every", "0.2"]) as (shown, press, ended):
        first = shown(r"q quit   sort by  w wait\*  9 p99  5 p50")
        assert "route" in first
        press("9")
        text = shown(r"9 p99\*")
        press("q")
        assert ended() == 0
    screens = re.split(r"\x1b\[H|\x1b\[\d+;1H", first + text)
    lines = [re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", line) for screen in screens for line in screen.split("\n")]
    assert max(len(line.rstrip("\r")) for line in lines) <= 80
    assert max(screen.count("\n") for screen in screens) <= 23


@contextlib.contextmanager
def _terminal(arguments: list[str]) -> Iterator[tuple[Any, Any, Any]]:
    """(wait for a pattern and give what came, press keys, exit code) of `greenlane top` in a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    before = termios.tcgetattr(theirs)
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    top = subprocess.Popen([*_COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)

    def shown(pattern: str) -> str:
        text, until = "", time.monotonic() + 30
        while time.monotonic() < until:
            if select.select([ours], [], [], 0.1)[0]:
                text += os.read(ours, 65536).decode()
            if re.search(pattern, text):
                return text
        raise AssertionError(f"{pattern} did not come: {text[-2000:]}")

    try:
        yield shown, lambda keys: os.write(ours, keys.encode()), lambda: top.wait(30)
        assert termios.tcgetattr(theirs) == before
    finally:
        top.kill()
        top.wait()
        os.close(ours)
        os.close(theirs)
