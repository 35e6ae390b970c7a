"""What our threads run as Python imports nothing: a child forked meanwhile has a lock that nobody releases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Waits until the process is seen over its control socket, and asks for what `greenlane top` and `record` ask.
PROGRAM = """
import os, sys, threading, time
from pathlib import Path
imported, main = [], threading.get_ident()

def hear(event, arguments):
    if event == "import" and threading.get_ident() != main:
        imported.append(arguments[0])

sys.addaudithook(hear)
from greenlane.control.client import ask
from greenlane.settings import load
from greenlane.wiring.recording import start_recording
recorded = start_recording(load({"record_folder": sys.argv[1], "control_dir": sys.argv[2]}, environ={}))
assert recorded is not None
time.sleep(0.001)
path = Path(sys.argv[2]) / f"{os.getpid()}.sock"
until = time.monotonic() + 20
while not path.exists() and time.monotonic() < until:
    time.sleep(0.001)
assert "record" in ask(path, {"do": "show"})
ask(path, {"do": "record", "on": False})
ask(path, {"do": "record", "on": True})
assert threading.get_ident() == main
print(imported)
"""


def test_no_thread_of_ours_imports(run_python: Callable[..., Any], tmp_path: Path) -> None:
    done = run_python(PROGRAM, str(tmp_path / "recorded"), str(tmp_path / "control"))
    assert done.stdout.split() == ["[]"]
