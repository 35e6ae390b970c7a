"""A command line, taken apart: which server it starts, by which interpreter, with which arguments.

Understood are `gunicorn …`, `uvicorn …`, `granian …` as scripts found in PATH or named by their path, `python -m …` of
them, and in front of either `env`, `exec` and NAME=VALUE. A program that starts a server from its own code is not: its
settings are in code that only a run of it would show.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from greenlane.errors import ArgumentError, HostError, SettingsError
from greenlane_tools.lab.doctor.subject import Setting, Subject, Times, this_kernel
from greenlane_tools.lab.processes import die_with_parent

SERVERS: Final = ("gunicorn", "uvicorn", "granian")
_ATTEMPT: Final = "examine the command"
# `python -m` names that start the same servers.
_MODULES: Final[Mapping[str, str]] = {"gunicorn.app.wsgiapp": "gunicorn", "uvicorn.main": "uvicorn"}
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
# pip's form of a script whose interpreter's path is too long for a first line.
_TRAMPOLINE: Final = re.compile(r"^'''exec'\s+(.+?)\s+\"\$0\"")
_HEAD_BYTES: Final = 4096


@dataclass(frozen=True)
class Parsed:
    """What a command starts."""

    server: str
    # The interpreter that would run the server.
    python: str
    # The server's own.
    arguments: tuple[str, ...]
    # Set by the command itself.
    env: Mapping[str, str] = field(default_factory=dict)


def parse(words: Sequence[str], path: str | None = None) -> Parsed:
    """The command's parts.

    Args:
        words: argument vector; a single word with spaces is split as a shell would.
        path: where scripts are looked for; None = PATH.

    Raises:
        SettingsError: it starts no server that is known here, or cannot be found.
    """
    rest = shlex.split(words[0]) if len(words) == 1 and " " in words[0] else list(words)
    env: dict[str, str] = {}
    while rest and (rest[0] in ("env", "exec") or _ASSIGNMENT.match(rest[0])):
        name, assigned, value = rest.pop(0).partition("=")
        if assigned:
            env[name] = value
    if not rest:
        raise _unknown(shlex.join(words))
    program = _found(rest[0], path)
    base = Path(rest[0]).name
    if re.fullmatch(r"(python|pypy)[0-9.]*t?", base):
        return _of_module(program, rest[1:], env)
    if base not in SERVERS:
        raise _unknown(base)
    return Parsed(base, _interpreter(program), tuple(rest[1:]), env)


def _of_module(python: str, rest: list[str], env: Mapping[str, str]) -> Parsed:
    # Flags of the interpreter; -X and -W take a word.
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        del rest[: 2 if rest[0] in ("-X", "-W") else 1]
    if len(rest) < 2 or rest[0] != "-m":
        raise _unknown(shlex.join(["python", *rest[:1]]))
    server = _MODULES.get(rest[1], rest[1])
    if server not in SERVERS:
        raise _unknown(f"python -m {rest[1]}")
    return Parsed(server, python, tuple(rest[2:]), env)


def _found(program: str, path: str | None) -> str:
    found = shutil.which(program, path=path)
    if found is None:
        rule = "a program that can be run"
        raise ArgumentError("COMMAND", program, rule, "give its path, or activate its environment", attempted=_ATTEMPT)
    return os.path.abspath(found)


def _interpreter(script: str) -> str:
    """The interpreter that the script names in its first lines."""
    with open(script, "rb") as file:
        head = file.read(_HEAD_BYTES).decode(errors="replace").splitlines()
    first = head[0] if head else ""
    if len(head) > 1 and (found := _TRAMPOLINE.match(head[1])):
        return shlex.split(found[1])[0]
    if first.startswith("#!") and "python" in first:
        parts = shlex.split(first[2:])
        return _found(parts[-1], None) if Path(parts[0]).name == "env" else parts[0]
    rule = "a Python script, whose first line names its interpreter"
    hint = f"give it as `PYTHON -m {Path(script).name} …`"
    raise ArgumentError("COMMAND", script, rule, hint, attempted=_ATTEMPT)


def _unknown(value: str) -> SettingsError:
    hint = "settings in a program's own code are not seen; give the command that its server would be started by"
    return ArgumentError("COMMAND", value, f"one that starts {', '.join(SERVERS)}", hint, attempted=_ATTEMPT)


# --- Runs the command's own interpreter and lets its server say what it would do. The application is not started.

# Longer than any import of a configuration file should take.
_ANSWER_S: Final = 60.0
_FOLDER: Final = Path(__file__).parent / "asked"
_ASKING: Final = "ask the server for its settings"


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
        raise HostError(_ASKING, name="interpreter", value=parsed.python, rule=rule) from None
    except subprocess.TimeoutExpired:
        rule = f"an answer within {_ANSWER_S:.0f} s"
        hint = "look at what its configuration file does when it is imported"
        raise HostError(_ASKING, name="interpreter", value=parsed.python, rule=rule, hint=hint) from None
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
        hint = "name the interpreter that has it: `greenlane doctor -- PATH/TO/python -m …`"
        return HostError(_ASKING, name="interpreter", value=parsed.python, rule=f"one with {parsed.server}", hint=hint)
    rule = f"what {parsed.server} takes; it said: {last}"
    return ArgumentError("COMMAND", " ".join(parsed.arguments), rule, "correct it", attempted=_ASKING)
