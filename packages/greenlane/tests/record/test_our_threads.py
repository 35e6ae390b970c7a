"""What a child would have of our threads' work: an import that nobody ends, a lock that nobody releases.

So our threads import nothing; and where something is switched, which may import, forks wait.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


#: Imports asyncio while nothing is recorded. The recording is switched on, which imports the probe of asyncio, and the
#: program forks in the middle of that.
FORKS = """
import os, signal, sys, threading
from pathlib import Path
from greenlane.control.client import ask
from greenlane.settings import load
from greenlane.wiring.recording import start_recording
folders = {"record_folder": sys.argv[1], "control_dir": sys.argv[2]}
if SWITCHED == "attach":
    import greenlane.attachable
    greenlane.attachable.control_endpoint.serve(sys.argv[2], "attach", greenlane.attachable.recording)
else:
    recorded = start_recording(load({**folders, "record_on": False}, environ={}))
    recorded.listen()
import asyncio
importing, forking, forked, main = threading.Event(), threading.Event(), threading.Event(), threading.get_ident()
ours = "greenlane.probes.asyncio"

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == ours and threading.get_ident() != main:
            importing.set()
            forking.wait(10)
            forked.wait(0.2)  # never, if the fork waits for us

sys.meta_path.insert(0, Slow())
path = Path(sys.argv[2]) / f"{os.getpid()}.sock"
attach = {"do": "attach", **folders, "record_max_mb": 1, "record_stacks": False}
request = attach if SWITCHED == "attach" else {"do": "record", "on": True}
asking = threading.Thread(target=ask, args=(path, request))
asking.start()
assert importing.wait(10)
os.register_at_fork(before=forking.set, after_in_parent=forked.set)
child = os.fork()
if child == 0:
    signal.alarm(10)
    import greenlane.probes.asyncio
    os._exit(0)
print(os.waitpid(child, 0)[1])
asking.join()
"""


@pytest.mark.parametrize("switched", ["record", "attach"])
def test_a_child_forked_while_we_are_switched_on_can_import(
    switched: str, run_python: Callable[..., Any], tmp_path: Path
) -> None:
    program = f"SWITCHED = {switched!r}\n{FORKS}"
    done = run_python(program, str(tmp_path / "recorded"), str(tmp_path / "control"))
    assert done.stdout.split() == ["0"]
