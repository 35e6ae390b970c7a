"""`greenlane doctor`: would a service start here with these settings? Exit 2 when not.

With `-- COMMAND` also which settings of that server's command do nothing or harm: the examination of greenlane-tools.
"""

from __future__ import annotations

import argparse
import functools
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from greenlane._native import NEWEST_PYTHON
from greenlane.cli import commands
from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.parser import Parser
from greenlane.cli.settings_flags import declare_settings, effective_settings
from greenlane.control.protocol import check_directory
from greenlane.errors import GreenlaneError, SettingsError
from greenlane.settings import Settings
from greenlane.settings.shown import DEFAULT, effective, installed

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [OPTION ...] [-- COMMAND ...]"
    parser.add_argument("--json", action="store_true", help="one JSON object; with a COMMAND, its findings")
    command = parser.add_argument_group("with -- COMMAND, as you start the service (gunicorn, uvicorn, granian)")
    command.add_argument("--cpu-ms", metavar="C", help="CPU of a typical request")
    command.add_argument("--network-ms", metavar="S", help="time that it waits for the network")
    command.add_argument("--check-live", action="store_true", help="also start the server, and count its listeners")
    command.add_argument("--strict", action="store_true", help="also exit 1 if a setting does nothing or harms")
    declare_settings(parser, installed(), shown=())


def _run(arguments: argparse.Namespace, output: Output) -> int:
    rows = [_row("platform", check_platform), _row("gunicorn", check_gunicorn)]
    try:
        settings = effective_settings(arguments, installed())
    except SettingsError as error:
        rows.append(_failed("settings", error))
    else:
        rows.append(_row("settings", functools.partial(_changed, settings)))
        rows.append(_row("learned file", functools.partial(check_learned_file, settings)))
        rows.append(_row("control directory", functools.partial(check_control_dir, settings)))
        rows.append(_row("cores", functools.partial(check_cores, settings)))
    if arguments.json and not arguments.passed_on:
        output.document("doctor", rows)
    elif not arguments.json:
        for row in rows:
            verdict = output.styled("ok  ", "green") if row["ok"] else output.styled("FAIL", "red")
            output.line(f"{verdict}  {row['check']}: {row['found']}")
    for row in rows:
        if row["error"]:
            output.say(f"greenlane: {row['error']}")
    examined = _examine(arguments, output) if arguments.passed_on else 0
    return examined if all(row["ok"] for row in rows) else 2


def _examine(arguments: argparse.Namespace, output: Output) -> int:
    """What `greenlane lab doctor` says of the server's command."""
    lab = commands.installed("lab")
    parser = Parser(prog="greenlane lab")
    lab.declare(parser)
    argv = ["doctor"]
    for flag in ("cpu_ms", "network_ms"):
        argv += [f"--{flag.replace('_', '-')}={getattr(arguments, flag)}"] if getattr(arguments, flag) else []
    for flag in ("check_live", "strict", "json"):
        argv += [f"--{flag.replace('_', '-')}"] if getattr(arguments, flag) else []
    return lab.run(parser.parse_args([*argv, "--", *arguments.passed_on]), output)


def _row(name: str, check: Callable[[], str]) -> dict[str, object]:
    try:
        return {"check": name, "ok": True, "found": check(), "error": None}
    except GreenlaneError as error:
        return _failed(name, error)


def _failed(name: str, error: GreenlaneError) -> dict[str, object]:
    return {"check": name, "ok": False, "found": "see stderr", "error": str(error)}


def _changed(settings: Settings) -> str:
    count = sum(row["origin"] != DEFAULT for row in effective(settings))
    return f"{count} other than the default; `greenlane config` lists them"


def check_platform() -> str:
    """The interpreter and operating system in words; PlatformError where Greenlane cannot run."""
    from greenlane.wiring import process

    process.check_platform()
    found = f"{platform.python_implementation()} {platform.python_version()} on {platform.system()}"
    newer = sys.version_info[:2] > NEWEST_PYTHON
    return f"{found} (newer than what is tested, {'.'.join(map(str, NEWEST_PYTHON))})" if newer else found


def check_gunicorn() -> str:
    """The installed gunicorn, if any; HostError where the worker does not support it."""
    import importlib.metadata

    from greenlane.hosts.gunicorn.release import check_release

    try:
        return check_release("check the host")
    except importlib.metadata.PackageNotFoundError:
        return "not installed; only `gunicorn -k greenlane.hosts.gunicorn.Worker` needs it"


def check_learned_file(settings: Settings) -> str:
    """What the learned file holds; LearnedFileError where it can be neither read nor made."""
    if not settings.learned_file:
        return "none set"
    from greenlane.lanes import learned

    path = Path(settings.learned_file)
    routes = learned.load(path)
    return f"{path}: {len(routes)} routes" if path.exists() else f"{path}: not there yet, will be made"


def check_control_dir(settings: Settings) -> str:
    """The control directory, unless a socket could not be made there; it is not made for the check."""
    if not settings.control_dir:
        return "none set: `greenlane top` and `greenlane mode` cannot reach the service"
    check_directory(settings.control_dir)
    return settings.control_dir


def check_cores(settings: Settings) -> str:
    """What handing the GIL to another thread costs on this machine, and whether threads would keep to one core."""
    from greenlane.wiring import gang

    refusal = gang.refusal(settings.cores)
    measured = gang.measured()
    if measured is None:
        return f"threads that run jobs use all: {refusal}"
    one_ns, two_ns, pays = measured
    cost = f"a hand-over costs {one_ns / 1000:.0f} us on one core, {two_ns / 1000:.0f} on two"
    if pays and "hypervisor" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace"):
        cost += " (a virtual machine: `haltpoll` on its host or as its cpuidle governor makes it cheaper)"
    if refusal or not (pays or settings.cores == "one"):
        return f"{cost}: threads that run jobs use all: {refusal or 'one core saves too little'}"
    return f"{cost}: threads that run jobs keep to one while nobody else needs it"


COMMAND: Final = Command(
    "doctor", "check settings, platform and hosts, and a server's command line", _declare, _run, passes_on=True,
    examples=("greenlane doctor", "greenlane doctor -- gunicorn -k gthread --threads 64 shop:app"),
)  # fmt: skip
