"""Each program says under the recording and with permits what it says by itself: output, errors, exit code."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.programs.conftest import has
from tests.programs.run import HERE, MODES, STARTS, run, stock

from tests import child

pytestmark = [pytest.mark.system, pytest.mark.slow]

APPS = HERE / "apps"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flags", [(), ("-X", "dev", "-W", "error"), ("-OO",), ("-B", "-u")], ids=" ".join)
def test_a_program_with_threads_and_children(python: Path, tmp_path: Path, mode: str, flags: tuple[str, ...]) -> None:
    expected = stock(python, tmp_path, [APPS / "busy.py"], flags=flags)
    assert expected.exit_code == 3, expected
    assert run(python, tmp_path, [APPS / "busy.py"], mode, flags=flags) == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("allocator", ["debug", "malloc_debug"])
def test_python_s_own_checks_of_memory(python: Path, tmp_path: Path, mode: str, allocator: str) -> None:
    env = {"PYTHONMALLOC": allocator}
    expected = stock(python, tmp_path, [APPS / "busy.py"], env=env)
    assert run(python, tmp_path, [APPS / "busy.py"], mode, env=env) == expected


@pytest.mark.parametrize("mode", MODES)
def test_a_tree_of_subprocesses_as_airflow_s(python: Path, tmp_path: Path, mode: str) -> None:
    expected = stock(python, tmp_path, [APPS / "tree.py", "scheduler", "3"])
    assert expected.exit_code == 0, expected
    assert run(python, tmp_path, [APPS / "tree.py", "scheduler", "3"], mode) == expected


@pytest.mark.parametrize("mode", MODES)
def test_coverage_counts_the_same_lines(python: Path, tmp_path: Path, mode: str) -> None:
    def counted(mode: str) -> list[object]:
        folder = tmp_path / mode
        measured = run(python, folder, ["-m", "coverage", "run", "--concurrency=thread", APPS / "busy.py"], mode)
        # Greenlane stands outside site-packages here, so coverage takes it for the program's own.
        return [measured, run(python, folder, ["-m", "coverage", "report", "-m", "--include=*/busy.py"])]

    assert counted(mode) == counted("stock")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", ["0", "2"])
def test_pytest_and_xdist_report_the_same(python: Path, tmp_path: Path, mode: str, workers: str) -> None:
    shutil.copy(APPS / "test_suite.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    arguments = ["-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", "-n", workers, "test_suite.py"]

    def reported(mode: str) -> list[object]:
        found = run(python, tmp_path, arguments, mode)
        lines = sorted(line for line in found.output.splitlines() if line.startswith(("PASSED", "FAILED", "ERROR")))
        return [found.exit_code, lines, found.errors]

    stock = reported("stock")
    assert stock[0] == 1 and len(stock[1]) == 10  # type: ignore[arg-type]
    assert reported(mode) == stock


@pytest.mark.parametrize("mode", MODES)
def test_debugpy_stops_and_goes_on(python: Path, tmp_path: Path, mode: str) -> None:
    """Its adapter is a process of its own; the program waits for no client and ends by itself."""
    port = child.free_port()
    arguments = ["-X", "frozen_modules=off", "-m", "debugpy", "--listen", f"127.0.0.1:{port}", APPS / "busy.py"]
    stock = run(python, tmp_path, arguments)
    assert stock.exit_code == 3, stock
    assert run(python, tmp_path, arguments, mode) == stock


@pytest.mark.parametrize("mode", MODES)
def test_a_jupyter_kernel_answers_every_cell(python: Path, tmp_path: Path, mode: str) -> None:
    env = {"IPYTHONDIR": str(tmp_path / "ipython"), "JUPYTER_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    env |= {"PYDEVD_DISABLE_FILE_VALIDATION": "1", "JUPYTER_PLATFORM_DIRS": "1"}

    def said(mode: str) -> tuple[int, str]:
        # Not the kernel's errors: it closes its sockets under its own last answer, in half of its runs without us too.
        outcome = run(python, tmp_path, [APPS / "kernel.py"], mode, env=env, timeout_s=100)
        return outcome.exit_code, outcome.output

    stock = said("stock")
    assert "over" in stock[1] and "ZeroDivisionError" in stock[1], stock
    assert said(mode) == stock


@pytest.mark.parametrize("mode", MODES)
def test_a_daemon_keeps_its_files_and_ends_by_its_signal(python: Path, tmp_path: Path, mode: str) -> None:
    def daemon(mode: str) -> list[object]:
        folder = tmp_path / mode
        folder.mkdir()
        with ThreadPoolExecutor(1) as pool:  # `greenlane record` lives as long as the daemon
            running = pool.submit(run, python, folder, [APPS / "daemon_app.py", folder], mode)
            end_s = time.monotonic() + 30
            while not (folder / "done").exists():
                assert time.monotonic() < end_s, ([each.name for each in folder.iterdir()], _text(folder / "errors"))
                time.sleep(0.02)
            pid = int((folder / "pid").read_text())
            os.kill(pid, signal.SIGTERM)
            while Path(f"/proc/{pid}").exists() and time.monotonic() < end_s:
                time.sleep(0.02)
            started = running.result()
        lines = [line for line in started.errors.splitlines() if not line.startswith("greenlane: ")]  # that it goes on
        said = (started.exit_code, started.output, lines)
        return [said, _text(folder / "done"), _text(folder / "errors"), (folder / "pid").exists()]

    assert daemon(mode) == daemon("stock")


@pytest.mark.soak  # building it takes both cores for a minute
@pytest.mark.parametrize("middleware", ["", "yes"], ids=["record", "permits"])
def test_uwsgi_serves_and_ends_as_without_us(uwsgi: Path, python: Path, tmp_path: Path, middleware: str) -> None:
    def served(mode: str, middleware: str) -> list[object]:
        port = child.free_port()
        command: list[str | Path] = [
            uwsgi,
            "--http-socket",
            f"127.0.0.1:{port}",
            "--master",
            "--lazy-apps",
        ]
        command += [
            "--processes",
            "2",
            "--threads",
            "2",
            "--enable-threads",
            "--die-on-term",
            "--need-app",
            "--virtualenv",
        ]
        command += [python.parent.parent, "--wsgi-file", APPS / "web.py", "--disable-logging"]
        if mode == "record":
            record = "import sys; from greenlane.cli.main import main; sys.exit(main())"
            command = [sys.executable, "-c", record, "record", "-o", tmp_path / "uwsgi.glr", "--", *command]
            command = ["env", f"PYTHONPATH={STARTS[mode]}", *command]
        env = {"MIDDLEWARE": middleware, "GREENLANE_CONFIG": ""}
        with child.Child(command, env=env, cwd=tmp_path) as process:
            process.wait_output("spawned uWSGI worker 2", timeout_s=30)
            bodies = []
            for number in range(20):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/{number}", timeout=20) as answer:
                    bodies.append((answer.status, answer.read()))
            process.signal(signal.SIGTERM)
            code = process.wait_exit()
            trouble = [line for line in process.output.splitlines() if re.search("Traceback|Error|segfault|!!!", line)]
            return [bodies, code, trouble]

    stock = served("stock", "")
    assert served("permits" if middleware else "record", middleware) == stock


def test_eventlet_is_refused_by_its_name(python: Path, tmp_path: Path) -> None:
    if not has(python, "eventlet"):
        pytest.skip("eventlet does not run on this Python")
    code = "import eventlet; eventlet.monkey_patch(); from greenlane.hosts.wsgi import Greenlane; Greenlane(print)"
    found = run(python, tmp_path, ["-W", "ignore", "-c", code])
    assert found.exit_code == 1
    assert "HostError" in found.errors and "eventlet.monkey_patch" in found.errors


def test_a_recording_refuses_eventlet_by_its_name(python: Path, tmp_path: Path) -> None:
    if not has(python, "eventlet"):
        pytest.skip("eventlet does not run on this Python")
    code = """
import eventlet
eventlet.monkey_patch()
import time, greenlane.record
with greenlane.record.job("one"):
    time.sleep(0.5)
"""
    found = run(python, tmp_path, ["-W", "ignore", "-c", code], "record")
    assert found.exit_code == 0
    assert "eventlet is not recorded" in found.errors


def test_an_eventlet_program_under_record_does_the_same(python: Path, tmp_path: Path) -> None:
    code = """
import eventlet
eventlet.monkey_patch()
import time, threading
pool = eventlet.GreenPool(4)
print(sorted(pool.imap(lambda number: (time.sleep(0.001), number)[1], range(9))))
thread = threading.Thread(target=print, args=("green",))
thread.start()
thread.join()
"""
    stock = run(python, tmp_path, ["-W", "ignore", "-c", code])
    assert stock.exit_code == 0, stock
    found = run(python, tmp_path, ["-W", "ignore", "-c", code], "record")
    assert (found.exit_code, found.output) == (stock.exit_code, stock.output)


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""
