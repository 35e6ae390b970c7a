"""Lets `greenlane record --pid` record this process later: `import greenlane.attachable`.

It only opens the control socket in `control_dir` (GREENLANE_CONTROL_DIR, greenlane.toml), on a thread that sleeps. No
probe is installed. A forked child opens its own socket. Processes with Greenlane's middleware or workers and a
`control_dir` have the socket already.
"""

from __future__ import annotations

import contextlib
import os

from greenlane.settings import load

# Imported here: if one of our threads did it, a child forked at that moment would inherit a locked import lock.
from greenlane.wiring import control_endpoint, recording

__all__ = ["listen"]


def listen() -> bool:
    """Open the control socket of this process; False = `control_dir` is not set. Idempotent.

    Raises:
        SettingsError, ControlError: `control_dir` cannot be used.
    """
    directory = load().control_dir
    if directory:
        control_endpoint.serve(directory, "attach", recording)
    return bool(directory)


def _again() -> None:
    with contextlib.suppress(Exception):  # the child runs as well without it
        listen()


if listen():
    os.register_at_fork(after_in_child=_again)
