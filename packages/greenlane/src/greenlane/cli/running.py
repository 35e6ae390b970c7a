"""The running processes of a `control_dir`, for the commands that talk to them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from greenlane.cli.output import Output
from greenlane.cli.settings_flags import declare_settings, effective_settings
from greenlane.control.client import ask, processes
from greenlane.errors import ControlError, SettingsError
from greenlane.settings import Settings

__all__ = ["answers", "control_dir", "declare_running"]

_REACH: Final = "reach the running processes"


def declare_running(parser: argparse.ArgumentParser) -> None:
    """Adds `--pid`, `--control-dir` and `--config`."""
    parser.add_argument("--pid", type=int, help="this process only")
    declare_settings(parser, Settings, ["control_dir"])


def control_dir(arguments: argparse.Namespace) -> str:
    """The directory of the control sockets; SettingsError when none is set."""
    directory = effective_settings(arguments, Settings).control_dir
    if not directory:
        rule = "the directory in which the service has its control sockets"
        hint = 'set control_dir = "/run/greenlane" in greenlane.toml for both, or GREENLANE_CONTROL_DIR for both'
        raise SettingsError("control_dir", directory, rule, hint, attempted=_REACH)
    return directory


def answers(
    arguments: argparse.Namespace, request: Mapping[str, object], output: Output
) -> tuple[list[dict[str, Any]], int]:
    """What the processes answer, and how many did not; each of those is named on stderr.

    Raises:
        SettingsError: no control_dir is set.
        ControlError: there is no process, or none that answers.
    """
    directory = control_dir(arguments)
    found = processes(directory)
    if arguments.pid is not None:
        found = [process for process in found if process.pid == arguments.pid]
    if not found:
        who = "a process" if arguments.pid is None else f"process {arguments.pid}"
        rule = f"{who} that listens there"
        hint = "start the service with this control_dir"
        raise ControlError(_REACH, name="control_dir", value=directory, rule=rule, hint=hint)
    answered = []
    errors = []
    for process in found:
        try:
            answered.append(ask(process.socket, request))
        except ControlError as error:
            errors.append(error)
    if not answered:
        raise errors[0]
    for each in errors:
        output.say(f"greenlane: {each}")
    return answered, len(errors)
