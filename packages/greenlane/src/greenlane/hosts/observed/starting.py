"""The start of a recording in a program that knows nothing of Greenlane."""

from __future__ import annotations

import os

from greenlane import bootstrap
from greenlane.errors import GreenlaneError
from greenlane.hosts.observed import installation
from greenlane.settings import load

__all__ = ["start"]

#: What `greenlane record` sets. Other settings are the program's own; a wrong one must not fail what only records.
VARIABLES = ("RECORD_FOLDER", "RECORD_ON", "RECORD_MAX_MB", "RECORD_STACKS", "CONTROL_DIR")


def start() -> str:
    """Start what the environment asks for, with the hosts' observers; give why it could not, "" if it could."""
    names = [f"GREENLANE_{name}" for name in VARIABLES]
    environ = {name: os.environ[name] for name in names if name in os.environ}
    try:
        settings = load(environ={**environ, "GREENLANE_CONFIG": ""})
        bootstrap.start_recording(settings)
    except GreenlaneError as error:
        return str(error).partition("\n")[0]
    installation.install()
    return ""
