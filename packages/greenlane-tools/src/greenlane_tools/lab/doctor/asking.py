"""Runs the command's own interpreter and lets its server say what it would do. The application is not started."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from greenlane.errors import HostError, SettingsError
from greenlane_tools.lab.doctor.command import Parsed
from greenlane_tools.lab.doctor.subject import Setting, Subject, Times, this_kernel
from greenlane_tools.lab.processes import die_with_parent

__all__ = ["ask"]

# Longer than any import of a configuration file should take.
_ANSWER_S: Final = 60.0
_FOLDER: Final = Path(__file__).parent / "asked"
_ATTEMPT: Final = "ask the server for its settings"


def ask(parsed: Parsed, times: Times | None = None) -> Subject:
    """What the server says of itself.

    Raises:
        SettingsError: the server refuses its arguments or its configuration; what it said is in the message.
        HostError: the interpreter cannot be run, or has no such server.
    """
    said = _asked(parsed)
    settings = {name: Setting(one["value"], one["origin"]) for name, one in said["settings"].items()}
    folder = settings["worker_tmp_dir"].value if "worker_tmp_dir" in settings else None
    return Subject(
        server=said["server"],
        version=said["version"],
        python=said["python"],
        settings=settings,
        addresses=tuple(said["addresses"]),
        worker_class=said["worker_class"],
        kind=said["kind"],
        failure=said["failure"],
        mechanics=said["mechanics"],
        versions=said["versions"],
        kernel=this_kernel((folder or tempfile.gettempdir(),)),
        times=times,
    )


def _asked(parsed: Parsed) -> dict[str, Any]:
    program = "of_gunicorn.py" if parsed.server == "gunicorn" else "of_click.py"
    server = [] if parsed.server == "gunicorn" else [parsed.server]
    reading, writing = os.pipe()
    command = [parsed.python, str(_FOLDER / program), str(writing), *server, *parsed.arguments]
    try:
        done = subprocess.run(
            command, env={**os.environ, **parsed.env}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_ANSWER_S, check=False, pass_fds=(writing,), process_group=0,
            preexec_fn=die_with_parent,
        )  # fmt: skip
    except OSError as error:
        rule = f"a Python that can be run ({error.strerror})"
        raise HostError(_ATTEMPT, name="interpreter", value=parsed.python, rule=rule) from None
    except subprocess.TimeoutExpired:
        rule = f"an answer within {_ANSWER_S:.0f} s"
        hint = "look at what its configuration file does when it is imported"
        raise HostError(_ATTEMPT, name="interpreter", value=parsed.python, rule=rule, hint=hint) from None
    finally:
        os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        text = pipe.read()
    if text:
        found: dict[str, Any] = json.loads(text)
        return found
    raise _refused(parsed, done)


def _refused(parsed: Parsed, done: subprocess.CompletedProcess[str]) -> Exception:
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit code {done.returncode}"
    if f"No module named '{parsed.server}" in last or f"No module named {parsed.server}" in last:
        hint = "name the interpreter that has it: `greenlane lab doctor -- PATH/TO/python -m …`"
        return HostError(_ATTEMPT, name="interpreter", value=parsed.python, rule=f"one with {parsed.server}", hint=hint)
    rule = f"what {parsed.server} takes; it said: {last}"
    return SettingsError("COMMAND", " ".join(parsed.arguments), rule, "correct it", attempted=_ATTEMPT)
