"""The recording of an unchanged program: the recorder, and the observers of the hosts that the program imports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from greenlane.errors import GreenlaneError
from greenlane.probes.patching import Patches
from greenlane.wiring import recording as wired

__all__ = ["attach", "detach", "start"]

_SET: Final = ("record_folder", "control_dir", "record_max_mb", "record_last_s", "record_on", "record_stacks")


def start(observers: Mapping[str, str], unobserved: Sequence[str]) -> str:
    """Start what the environment asks for; give why it could not, "" if it could.

    Args:
        observers: module of a host -> "module:function" of what observes it.
        unobserved: modules of servers that are named where there are no jobs.
    """
    try:
        # What `greenlane record` has checked and set. Other settings are the program's own: none is read.
        given = {name: os.environ.get(f"GREENLANE_{name.upper()}", "") for name in _SET}
        settings: Any = SimpleNamespace(
            record_folder=given["record_folder"],
            control_dir=given["control_dir"],
            record_max_mb=float(given["record_max_mb"]),
            record_last_s=int(given["record_last_s"] or 0),
            record_on=given["record_on"] == "true",
            record_stacks=given["record_stacks"] == "true",
        )
        found = wired.start_recording(settings, Patches(observers))
        if found is not None:
            found.name_servers((*observers, *unobserved))
    except GreenlaneError as error:
        return str(error).partition("\n")[0]
    return ""


def attach(observers: Mapping[str, str], unobserved: Sequence[str], wanted: Mapping[str, object]) -> None:
    """Record this process, which serves, until `detach`.

    Args:
        observers, unobserved: as for `start`.
        wanted: `record_folder`, `control_dir` (where its socket is), `record_max_mb`, `record_stacks`.

    Raises:
        RecordError: the folder cannot be written to.
        ControlError, SettingsError: `control_dir` cannot be used. Nothing is left behind.
    """
    settings: Any = SimpleNamespace(**wanted, record_last_s=0, record_on=True)
    found = wired.start_recording(settings, Patches(observers))
    try:
        if found is not None:
            found.name_servers((*observers, *unobserved))
            found.listen()
    except BaseException:
        wired.stop_recording()
        raise


def detach() -> None:
    """End what `attach` began, and put everything back. Idempotent."""
    wired.stop_recording()
