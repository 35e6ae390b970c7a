"""What comes into a serving process is counted in a real one, and stays within what was promised."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.inside import starting
from tests.inside.rows import LIMITS, lines_of, row_of


def look(host: str) -> dict[str, Any]:
    for module in starting.HOSTS[host].needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}")
    return row_of(host, starting.look_inside(host))


def check_limits(row: dict[str, Any]) -> None:
    modules, code_lines = LIMITS[row["host"]]
    assert row["modules"] <= modules
    assert row["code_lines"] <= code_lines


def loaded(row: dict[str, Any], *prefixes: str) -> list[str]:
    return [one["module"] for one in row["listed"] if one["module"].startswith(prefixes)]


def test_the_middleware_brings_little() -> None:
    row = look("wsgi")
    check_limits(row)
    assert row["threads"] == row["exit_hooks"] == []
    assert {"_socket.socket.recv", "time.sleep", "_thread.RLock.acquire"} <= set(row["patches"])
    assert 0 < row["code_lines"] < row["lines"]
    assert row["native_bytes"] > 0
    unwanted = ("control", "export", "metrics", "placement", "wiring.recording", "wiring.pl", "cli")
    assert loaded(row, *(f"greenlane.{name}" for name in unwanted)) == []


@pytest.mark.slow
@pytest.mark.parametrize("host", ["asgi", "aiohttp"])
def test_hosts_of_loops_are_counted(host: str) -> None:
    row = look(host)
    assert loaded(row, f"greenlane.hosts.{host}")
    if host == "asgi":
        assert loaded(row, "greenlane.placement", "greenlane.export") == []
    assert loaded(row, "greenlane.control", "greenlane.wiring.recording", "greenlane.placement.cluster") == []


@pytest.mark.system
@pytest.mark.parametrize(
    ("host", "there"),
    [
        ("gunicorn", "greenlane.hosts.gunicorn"),
        ("record", "greenlane.hosts.observed"),
        ("work", "greenlane_work"),
        ("serve", "greenlane_serve.worker"),
    ],
)
@pytest.mark.gate
def test_servers_are_counted(host: str, there: str) -> None:
    row = look(host)
    check_limits(row)
    assert loaded(row, there)
    assert row["patches"]
    if host == "record":
        assert loaded(row, "greenlane.policy", "greenlane.lanes") == [], "observing never loads permits"
    others = {"greenlane_work", "greenlane_serve", "greenlane_tools"} - {there.partition(".")[0]}
    assert loaded(row, *others) == [], "a process loads its own distribution alone"


def test_blank_lines_comments_and_docstrings_are_no_code(tmp_path: Path) -> None:
    file = tmp_path / "one.py"
    file.write_text(
        '"""A module.\n\nMore of it.\n"""\n\n# why\nx = (\n    1,\n)\n\n\ndef f():\n    """One."""\n    return x\n'
    )
    assert lines_of(file) == (5, 14)


IMPORTS: Final = """
import atexit, os, sys, threading
before = {name for name in sys.modules}
os.register_at_fork = lambda **named: sys.exit("a fork hook")
hooks = atexit._ncallbacks()
import greenlane
assert dir(greenlane) and not hasattr(greenlane, "nothing_of_this_name")
loaded = {name for name in sys.modules} - before
assert loaded == {"greenlane"}, loaded
assert atexit._ncallbacks() == hooks and threading.active_count() == 1
assert greenlane.heavy is __import__("greenlane.job", fromlist=["heavy"]).heavy
"""


def test_importing_greenlane_does_nothing(run_python: Callable[..., object]) -> None:
    run_python(IMPORTS)
