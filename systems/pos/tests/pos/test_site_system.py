"""The site as a program: it ends with the process that started it, however that ends, and says what is wrong."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from greenlane_tools.lab.processes import descendants, found_by
from pos.children import ROOT, Process, command
from pos.site import main
from pos.surroundings import VARIABLE, Surroundings

pytestmark = pytest.mark.system


def runs(pid: int) -> bool:
    """It is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def said(*arguments: str, **added: str) -> tuple[int, str]:
    ended = subprocess.run(
        [*command(arguments[0]), *arguments[1:]], env=found_by(ROOT) | added, capture_output=True, text=True, timeout=60
    )  # fmt: skip
    return ended.returncode, ended.stderr


@pytest.mark.soak
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_site_however_it_ends(tmp_path: Path, ending: int) -> None:
    parts = ["--worker", "prefork-4", "--divert-to", "none", "--merchants", "sushi,taco"]
    flags = ["--folder", str(tmp_path / "site"), "--per-s", "20", *parts]
    site = Process([*command("pos.site"), *flags], tmp_path / "log")
    try:
        site.wait_until(lambda: "the page is at" in site.said(), "the page's address")
        url = next(line for line in site.said().splitlines() if line.startswith("http"))
        with urllib.request.urlopen(url, timeout=10) as page:
            assert b"Orders on their way" in page.read()
        family = site.pids()
        # Itself, port mapper, broker, two merchants, backend, the worker.
        assert len(family) >= 7
        os.kill(site.pid, ending)
        until = time.monotonic() + 30
        while left := [pid for pid in family if runs(pid)]:
            assert time.monotonic() < until, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left]
            time.sleep(0.05)
    finally:
        site.end()


@pytest.mark.soak
def test_a_worker_that_ends_ends_the_site_with_what_it_said(tmp_path: Path) -> None:
    flags = ["--folder", str(tmp_path / "site"), "--worker", "prefork-4", "--divert-to", "none", "--merchants", "taco"]
    site = Process([*command("pos.site"), *flags], tmp_path / "log")
    try:
        site.wait_until(lambda: "the page is at" in site.said(), "the page's address")
        worker = next(pid for pid in site.pids() if b"prefork-4@" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(worker, signal.SIGKILL)
        assert site.wait(30) == 1
        assert "run prefork-4: it has ended, expected it to stay" in site.log.read_text()
    finally:
        site.end()


def test_descendants_are_children_and_theirs(tmp_path: Path) -> None:
    parent = Process(["sh", "-c", "sh -c 'sleep 60 & wait' & wait"], tmp_path / "log")
    parent.wait_until(lambda: len(descendants(parent.pid)) == 3, "three of them")
    assert descendants(parent.pid)[0] == parent.pid
    parent.kill()
    assert parent.pids() == []


def test_programs_without_a_site_say_what_they_lack(tmp_path: Path) -> None:
    code, text = said("pos.backend", "--port", "1")
    assert code == 2 and f"{VARIABLE}=None, expected the path of a file" in text and "hint: start the site" in text
    (tmp_path / "it.json").write_text('{"broker": "amqp://", "colour": "red"}')
    code, text = said("pos.backend", "--port", "1", **{VARIABLE: str(tmp_path / "it.json")})
    assert code == 2 and "colour" in text


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    Surroundings("amqp://nobody", journal=str(tmp_path / "journal")).write(tmp_path / "it.json")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, text = said("pos.backend", "--port", port, **{VARIABLE: str(tmp_path / "it.json")})
    assert code == 2 and f"serve: port={port}, expected a port" in text and "Traceback" not in text


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--merchants", "taco,nobody"], "--merchants='taco,nobody', expected some of arepa"),
        (["--merchants", "taco,taco"], "each once"),
        (["--per-s", "-1"], "start the site: --per-s=-1.0, expected 0 to 300"),
        (["--per-s", "nan"], "expected 0 to 300"),
        (["--port", "70000"], "--port=70000, expected 0 to 65535"),
        (["--folder", __file__], "expected a folder"),
    ],
)
def test_a_wrong_option_is_said_before_anything_starts(
    argv: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2 and expected in capsys.readouterr().err
