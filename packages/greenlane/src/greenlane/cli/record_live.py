"""Recordings that run: found by file, folder or process id, switched and shown over their control sockets."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from greenlane.cli.output import Output
from greenlane.cli.record_parts import Parts
from greenlane.control.client import Process, ask, processes
from greenlane.errors import ArgumentError, ControlError, GreenlaneError, SettingsError
from greenlane.record.recorder import PARTS
from greenlane.settings import load

__all__ = ["COLUMNS", "ask_all", "control_dir_of", "found", "rows"]

COLUMNS: Final = ("pid", "record", "jobs", "in_progress", "lag_ms_p99", "busy_frac", "file_mb", "lost")
_REACH: Final = "reach the recorded processes"
_MB: Final = 1_000_000


def found(target: str) -> list[Process]:
    """Give the recorded processes of a target.

    Args:
        target: a recording's file or `.parts` folder, a directory of control sockets, or a process id; "" = the
            `control_dir` of the settings, else the only `*.parts` folder here.

    Raises:
        GreenlaneError: there are none.
    """
    if target.isdecimal():
        return [process for process in _listening(control_dir_of(int(target))) if process.pid == int(target)]
    directory = Path(target) if target else _default()
    if directory.suffix != PARTS and directory.is_dir():
        return _listening(directory)
    parts = Parts(directory.with_suffix("") if directory.suffix == PARTS else directory)
    if not parts.folder.is_dir():
        raise _not_running(target, parts)
    return _listening(parts.control_dir())


def ask_all(listening: list[Process], request: Mapping[str, object], output: Output) -> list[dict[str, Any]]:
    """Give the answers of those that record; each that does not answer is named on stderr.

    Raises:
        ControlError: nobody answers.
    """
    answered = []
    errors = []
    for process in listening:
        try:
            answered.append(ask(process.socket, request))
        except ControlError as error:
            errors.append(error)
    if errors and not answered:
        raise errors[0]
    for each in errors:
        output.say(f"greenlane: {each}")
    return [answer for answer in answered if isinstance(answer.get("record"), dict)]


def rows(answers: list[dict[str, Any]]) -> list[dict[str, object]]:
    """Give a row a process."""
    names = COLUMNS[2:]
    shown = []
    for answer in answers:
        record = answer["record"]
        state = "on" if record["on"] else "off"
        shown.append({"pid": answer["pid"], "record": state, **{name: record[name] for name in names}})
    return shown


def _listening(directory: Path) -> list[Process]:
    listening = processes(directory)
    if not listening:
        rule = "the folder of a recording that runs"
        hint = "start it with `greenlane record -- COMMAND`"
        raise ControlError(_REACH, name="TARGET", value=str(directory), rule=rule, hint=hint)
    return listening


def _not_running(target: str, parts: Parts) -> SettingsError:
    over = parts.file.is_file()
    rule = f"a recording that runs ({'this one is complete' if over else 'there is none of this name'})"
    hint = f"`greenlane report {shlex.quote(target)}` reads it" if over else "give it as it stands behind -o"
    return ArgumentError("TARGET", target, rule, hint, attempted=_REACH)


def _default() -> Path:
    directory = load().control_dir
    if directory:
        return Path(directory)
    folders = [folder for folder in Path().glob(f"*{PARTS}") if folder.is_dir()]
    if len(folders) != 1:
        rule = f"one recording in this folder (there are {len(folders)})"
        hint = "name a recording's FILE, a control_dir or a process id"
        raise ArgumentError("TARGET", "", rule, hint, attempted=_REACH)
    return folders[0]


def control_dir_of(pid: int) -> Path:
    """The directory that the environment of a running process names."""
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == b"GREENLANE_CONTROL_DIR":
                return Path(value.decode("utf-8", "surrogateescape"))
    with contextlib.suppress(GreenlaneError):
        if directory := load().control_dir:
            return Path(directory)
    rule = "a process that runs under `greenlane record`"
    raise ControlError(_REACH, name="TARGET", value=pid, rule=rule, hint="`greenlane record --status FILE` lists them")
