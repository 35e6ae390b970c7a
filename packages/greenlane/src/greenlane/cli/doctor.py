"""`greenlane doctor`: would a service start here with these settings? Exit 2 when not.

With `-- COMMAND` also which settings of that server's command do nothing or harm: greenlane-tools knows them. Exit 1
when one keeps it from starting.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from greenlane._native import NEWEST_PYTHON, hand_over
from greenlane.cli.command import Command
from greenlane.cli.extra import install
from greenlane.cli.output import Output
from greenlane.cli.settings_flags import declare_settings, effective_settings
from greenlane.control.protocol import check_directory
from greenlane.errors import GreenlaneError, PlatformError, SettingsError
from greenlane.settings import Settings
from greenlane.settings.listing import DEFAULT, effective, installed

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.usage = f"{parser.prog} [OPTION ...] [-- COMMAND ...]"
    parser.add_argument("--json", action="store_true", help="one JSON object; with a COMMAND, its findings")
    command = parser.add_argument_group("with -- COMMAND, as you start the service (gunicorn, uvicorn, granian)")
    command.add_argument("--cpu-ms", metavar="C", type=_milliseconds, help="CPU of a typical request")
    command.add_argument("--network-ms", metavar="S", type=_milliseconds, help="time that it waits for the network")
    command.add_argument("--check-live", action="store_true", help="also start the server, and count its listeners")
    command.add_argument("--strict", action="store_true", help="also exit 1 if a setting does nothing or harms")
    declare_settings(parser, installed(), shown=())


def _milliseconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if 0 < value < 1e6:
        return value
    raise argparse.ArgumentTypeError(f"{text!r}, expected a number of milliseconds above 0")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    rows = [_row("platform", check_platform), _row("gunicorn", check_gunicorn)]
    try:
        settings = effective_settings(arguments, installed())
    except SettingsError as error:
        rows.append(_error_row("settings", error))
    else:
        rows.append(_row("settings", functools.partial(_list_changed, settings)))
        rows.append(_row("control directory", functools.partial(check_control_dir, settings)))
        rows.append(_row("cores", functools.partial(check_cores, settings)))
    for row in rows:
        # With a command its findings are what is asked for.
        if not arguments.json and not (arguments.passed_on and row["ok"]):
            verdict = output.styled("ok  ", "green") if row["ok"] else output.styled("FAIL", "red")
            output.line(f"{verdict}  {row['check']}: {row['found']}")
        if row["error"]:
            output.say(f"greenlane: {row['error']}")
    found, well = _examine(arguments, output) if arguments.passed_on else ([], True)
    if arguments.json:
        output.document("doctor", [*rows, *found])
    return 2 if not all(row["ok"] for row in rows) else int(not well)


def _examine(arguments: argparse.Namespace, output: Output) -> tuple[list[dict[str, object]], bool]:
    try:
        tools = importlib.import_module("greenlane_tools.cli.doctor")
    except ModuleNotFoundError:
        rule = "none: what knows servers' settings is part of the extra tools"
        raise PlatformError(
            "examine a command", name="COMMAND", value=" ".join(arguments.passed_on), rule=rule, hint=install("tools")
        ) from None
    examined: tuple[list[dict[str, object]], bool] = tools.examine(arguments, output)
    return examined


def _row(name: str, check: Callable[[], str]) -> dict[str, object]:
    try:
        return {"view": "check", "check": name, "ok": True, "found": check(), "error": None}
    except GreenlaneError as error:
        return _error_row(name, error)


def _error_row(name: str, error: GreenlaneError) -> dict[str, object]:
    return {"view": "check", "check": name, "ok": False, "found": "see stderr", "error": str(error)}


def _list_changed(settings: Settings) -> str:
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


def check_control_dir(settings: Settings) -> str:
    """The control directory, unless a socket could not be made there; it is not made for the check."""
    if not settings.control_dir:
        return "none set: `greenlane top` and `greenlane mode` cannot reach the service"
    check_directory(settings.control_dir)
    return settings.control_dir


def check_cores(settings: Settings) -> str:
    """What handing the GIL to another thread costs on this machine, and whether threads would keep to one core."""
    from greenlane.wiring import gang

    refused = gang.refusal(settings)
    measured = hand_over(None, gang.cores())
    if measured is None:
        return f"threads that run jobs use all: {refused or 'what a hand-over costs could not be measured'}"
    one_ns, two_ns, pays = measured
    cost = f"a hand-over costs {one_ns / 1000:.0f} us on one core, {two_ns / 1000:.0f} on two"
    if pays and "hypervisor" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace"):
        cost += " (a virtual machine: `haltpoll` on its host makes the second cheaper)"
    if refused or not (pays or settings.cores == "one"):
        return f"{cost}: threads that run jobs use all: {refused or 'one core saves too little'}"
    return f"{cost}: threads that run jobs keep to one while nobody else needs it"


COMMAND: Final = Command(
    "doctor", "check settings, platform and hosts, and a server's command line", _declare, _run, passes_on=True,
    examples=("greenlane doctor", "greenlane doctor -- gunicorn -k gthread --threads 64 shop:app"),
)  # fmt: skip
