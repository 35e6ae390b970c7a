"""Runs a program in each mode, and gives what can be compared of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
MODES = ("record", "permits")
#: Where the `sitecustomize` of a mode is: all programs are recorded, also those that serve nobody.
STARTS = {"record": HERE.parent / "recorded", "permits": HERE / "permits"}
_COMMAND = "import sys; from greenlane.cli.main import main; sys.exit(main())"
#: Our lines: what `greenlane record` says of its progress, and at its own end.
_OURS = re.compile(r"^(greenlane: record(ed|ing) |next: greenlane report )")
#: The same of a program that listens and has no jobs.
_NO_JOB = re.compile(r"^greenlane: no job ended: .*?^        \.\.\.[^\n]*\n?", re.MULTILINE | re.DOTALL)
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+\.\d+|\b\d{3,}\b")


@dataclass(frozen=True)
class Outcome:
    """What is not ours of a run."""

    exit_code: int
    output: str
    errors: str


def run(
    python: Path,
    folder: Path,
    arguments: Sequence[str | Path],
    mode: str = "stock",
    *,
    env: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    timeout_s: float = 60,
) -> Outcome:
    """Run `python FLAGS ARGUMENTS` in `folder`; in the mode "permits" the probes and permits stand in each process."""
    command: list[str | Path] = [python, *flags, *arguments]
    variables = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "COV_", "GREENLANE", "PYTHON"))
    }
    variables |= {"GREENLANE_CONFIG": "", "PYTHONHASHSEED": "0", **(env or {})}
    folder.mkdir(exist_ok=True)
    if mode == "record":
        command = [sys.executable, "-c", _COMMAND, "record", "--force", "-o", folder / "trace.glr", "--", *command]
    if mode in STARTS:
        variables["PYTHONPATH"] = str(STARTS[mode])
    process = subprocess.Popen(
        command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=timeout_s)
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return Outcome(process.returncode, _plain(output, folder), _plain(errors, folder))


def stock(
    python: Path, folder: Path, arguments: Sequence[str | Path], *, env: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
) -> Outcome:  # fmt: skip
    """What the program does by itself, which is the same beside each mode: run once."""
    key = (tuple(map(str, arguments)), tuple((env or {}).items()), tuple(flags))
    if key not in _stock:
        _stock[key] = run(python, folder, arguments, env=env, flags=flags)
    return _stock[key]


_stock: dict[tuple[object, ...], Outcome] = {}


def _plain(text: str, folder: Path) -> str:
    text = _NO_JOB.sub("", text.replace(str(folder), "FOLDER"))
    lines = (line for line in text.splitlines() if not _OURS.match(line))
    return "\n".join(_NUMBERS.sub("N", line).rstrip() for line in lines)
