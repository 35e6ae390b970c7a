"""Asks processes that have no control socket to open one: CPython 3.14 and later, by `sys.remote_exec` (PEP 768).

A small script runs in the main thread of the process, between two instructions of Python. A main thread that is in a
call of C runs it when the call returns. Greenlane need not be installed there: its package is loaded from where this
command has it, and the import path of the program stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import greenlane
from greenlane.control.client import processes
from greenlane.control.protocol import reason
from greenlane.errors import ControlError

__all__ = ["Remote"]

_WAITS_S: Final = 5.0
_LOOK_S: Final = 0.05
_PACKAGE: Final = Path(greenlane.__file__).parent
#: Names of its own, gone when it ends. Errors are written to a file: the program's stderr is not ours.
_SCRIPT: Final = """\
def _(package, directory, opens, answer):
    import importlib.util, sys
    try:
        if "greenlane" not in sys.modules and importlib.util.find_spec("greenlane") is None:
            spec = importlib.util.spec_from_file_location(
                "greenlane", package + "/__init__.py", submodule_search_locations=[package])
            sys.modules["greenlane"] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        from greenlane.wiring import control_endpoint, recording
        control_endpoint.serve(directory, "attach", recording) if opens else control_endpoint.withdraw("attach")
    except Exception as error:
        import os
        with open(answer + "_", "w", encoding="utf-8") as file:
            file.write(f"{type(error).__name__}: {error}")
        os.rename(answer + "_", answer)
_(%r, %r, %r, %r)
del _
"""


class Remote:
    """Control sockets of processes that had none, in a directory that goes with this object.

    Args:
        pid: one of the processes; the directory belongs to its user.
    """

    @staticmethod
    def is_possible() -> bool:
        """Whether this interpreter can ask others."""
        return hasattr(sys, "remote_exec")

    def __init__(self, pid: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="greenlane-attach-"))
        if os.geteuid() == 0:  # the processes make their sockets there as their own user
            about = Path(f"/proc/{pid}").stat()
            os.chown(self.directory, about.st_uid, about.st_gid)
        self._asked: set[int] = set()

    def ask(self, pid: int) -> None:
        """Ask a process, once. It listens as soon as its main thread runs Python.

        Raises:
            ControlError: it cannot be asked, or has said no since.
        """
        if pid not in self._asked:
            self._asked.add(pid)
            self._run(pid, opens=True)
        with contextlib.suppress(FileNotFoundError):
            said = (self.directory / f"{pid}.said").read_text("utf-8")
            raise _refusal(pid, f"that can load Greenlane ({said})", "install the same version there")

    def end(self) -> None:
        """Let all close their sockets, at their next instruction; the directory goes."""
        listening = {one.pid for one in processes(self.directory)}
        for pid in self._asked:
            if pid in listening:
                with contextlib.suppress(ControlError):
                    self._run(pid, opens=False)
            else:  # it may come to its script yet, and would tell on its stderr that there is none
                self._script(pid).write_text("", "utf-8")
        until_s = time.monotonic() + _WAITS_S
        while processes(self.directory) and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        if time.monotonic() < until_s and not any(Path(f"/proc/{pid}").exists() for pid in self._asked - listening):
            shutil.rmtree(self.directory, ignore_errors=True)

    def _script(self, pid: int) -> Path:
        return self.directory / f"{pid}.py"

    def _run(self, pid: int, *, opens: bool) -> None:
        script, told = self._script(pid), self.directory / f"{pid}.said"
        script.write_text(_SCRIPT % (str(_PACKAGE), str(self.directory), opens, str(told)), "utf-8")
        script.chmod(0o644)  # in a directory that is its user's alone
        try:
            sys.remote_exec(pid, str(script))  # type: ignore[attr-defined,unused-ignore]
        except PermissionError:
            raise _refusal(pid, "that this user may trace", "run this command as root") from None
        except (OSError, RuntimeError) as error:
            version = ".".join(map(str, sys.version_info[:2]))
            said = reason(error) if isinstance(error, OSError) else str(error)
            raise _refusal(
                pid, f"of CPython {version} that allows remote debugging ({said})", "record its start"
            ) from None


def _refusal(pid: int, rule: str, hint: str) -> ControlError:
    return ControlError("attach", name="--pid", value=pid, rule=f"a process {rule}", hint=hint)
