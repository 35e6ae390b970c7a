"""`greenlane top PID` of a process without a control socket: it is recorded meanwhile, where that can be asked for."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from greenlane.cli import record_live
from greenlane.cli.output import Output
from greenlane.cli.record_attach import HOW
from greenlane.cli.record_remote import Remote
from greenlane.errors import ControlError, GreenlaneError

__all__ = ["attached"]

_COMMAND: Final = (sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")
_READY_S: Final = 20.0
_LOOK_S: Final = 0.1
_END_S: Final = 15.0


@contextlib.contextmanager
def attached(target: str | None, output: Output) -> Iterator[str | None]:
    """The target to look at meanwhile: as given, or the recording of a process that had none. It goes with the block.

    Raises:
        ControlError: the process cannot be recorded; the hint is the line to add to it.
    """
    if target is None or not target.isdecimal() or _listens(target):
        yield target
        return
    if not Remote.is_possible():
        version = ".".join(map(str, sys.version_info[:2]))
        rule = f"a process with a control socket (CPython {version} cannot be asked to open one; 3.14 can)"
        raise ControlError("reach a process", name="TARGET", value=target, rule=rule, hint=HOW)
    with tempfile.TemporaryDirectory(prefix="greenlane-top-", ignore_cleanup_errors=True) as folder:
        recording = Path(folder, "top.glr")
        command = [*_COMMAND, "record", "--pid", target, "-o", str(recording)]
        record = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0)
        try:
            output.say(f"greenlane: asking process {target} to be recorded while you look")
            _wait(record, target, str(recording))
            yield str(recording)
        finally:
            record.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                record.communicate(timeout=_END_S)
            record.kill()


def _listens(pid: str) -> bool:
    with contextlib.suppress(GreenlaneError):
        return bool(record_live.found(pid))
    return False


def _wait(record: subprocess.Popen[str], pid: str, recording: str) -> None:
    until = time.monotonic() + _READY_S
    while record.poll() is None and time.monotonic() < until:
        with contextlib.suppress(GreenlaneError):
            if record_live.found(recording):
                return
        time.sleep(_LOOK_S)
    record.kill()
    said = record.communicate()[0].strip().partition("\nhint: ")
    rule = f"a process that can be recorded ({said[0].rpartition(chr(10))[2] or 'it did not answer'})"
    raise ControlError("reach a process", name="TARGET", value=pid, rule=rule, hint=said[2] or HOW)
