"""The recording of an unchanged program: the recorder, and the observers of the hosts that the program imports."""

from __future__ import annotations

import os
from typing import Final

from greenlane.errors import GreenlaneError
from greenlane.hosts.observed import OBSERVERS
from greenlane.probes.patching import Patches
from greenlane.settings import load
from greenlane.wiring import recording as wired

__all__ = ["HOSTS", "start"]

#: What `greenlane record` sets. Other settings are the program's own; a wrong one must not fail what only records.
_VARIABLES: Final = ("RECORD_FOLDER", "RECORD_ON", "RECORD_MAX_MB", "RECORD_STACKS", "CONTROL_DIR")

HOSTS: Final = Patches(OBSERVERS)


def start() -> str:
    """Start what the environment asks for, with the hosts' observers; give why it could not, "" if it could."""
    names = [f"GREENLANE_{name}" for name in _VARIABLES]
    environ = {name: os.environ[name] for name in names if name in os.environ}
    try:
        settings = load(environ={**environ, "GREENLANE_CONFIG": ""})
        wired.start_recording(settings, HOSTS)
    except GreenlaneError as error:
        return str(error).partition("\n")[0]
    return ""
