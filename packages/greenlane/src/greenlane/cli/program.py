"""The commands put together: arguments are read, one command runs, what happened becomes an exit code."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn, TextIO

from greenlane._native import __version__
from greenlane.cli.command import Command
from greenlane.cli.commands import DISTRIBUTIONS, installed, known, missing
from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError
from greenlane.settings.refusal import nearest

__all__ = ["run"]


def run(argv: Sequence[str]) -> int:
    """Runs one command; gives the exit code. Raises SystemExit for `--help` and usage errors, as argparse does."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    output = Output.standard()
    try:
        code = _run(argv, output)
        output.out.flush()
    except GreenlaneError as error:
        output.say(f"greenlane: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _silence(output.out)
        raise
    except BrokenPipeError:
        _silence(output.out)
        return 0
    except OSError as error:
        if error.filename is not None:
            raise  # a file that some command did not expect to fail: a bug, with its traceback
        _silence(output.out)
        output.say(f"greenlane: write the output: {error.strerror}\nhint: make room where stdout goes")
        return 1
    return code


def _run(argv: Sequence[str], output: Output) -> int:
    commands = _wanted(argv)
    parser = _parser(commands)
    argv, passed_on = _split(argv, commands)
    argv = _with_implied(argv, commands)
    arguments, unknown = parser.parse_known_args(argv)
    arguments.passed_on = passed_on
    if unknown:
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if arguments.command is None:
        parser.print_help(output.err)
        return 2
    chosen: Command = arguments.command
    return chosen.run(arguments, output)


def _wanted(argv: Sequence[str]) -> list[Command]:
    """The one command that is asked for, so that no other is loaded; else all that are installed."""
    if argv and argv[0] in known():
        return [installed(argv[0])]
    return [installed(name) for name in known() if name not in missing()]


def _split(argv: Sequence[str], commands: Sequence[Command]) -> tuple[Sequence[str], list[str]]:
    """What is ours, and what stands after `--` where a command passes that on."""
    passing = any(command.name == argv[0] and command.passes_on for command in commands) if argv else False
    if not passing or "--" not in argv:
        return argv, []
    at = list(argv).index("--")
    return argv[:at], list(argv[at + 1 :])


def _with_implied(argv: Sequence[str], commands: Sequence[Command]) -> Sequence[str]:
    """With the subcommand that is meant where none is written."""
    meant = next((command for command in commands if command.implied and argv[:1] == [command.name]), None)
    if meant is None or len(argv) < 2 or argv[1] in (*meant.subcommands, "-h", "--help"):
        return argv
    return [argv[0], meant.implied, *argv[1:]]


class _Parser(argparse.ArgumentParser):
    """Usage errors in the form of our other errors: what is wrong, then one hint."""

    def error(self, message: str) -> NoReturn:
        hint = self._nearest(message) or f"see `{self.prog} --help`"
        self.exit(2, f"{self.prog}: {message}\nhint: {hint}\n")

    def _nearest(self, message: str) -> str:
        found = re.search(r"invalid choice: '([^']+)'|unrecognized arguments: ([^\s=]+)", message)
        if not found:
            return ""
        choices = [str(choice) for action in self._actions for choice in action.choices or ()]
        return nearest(found[1], choices) if found[1] else nearest(found[2], self._option_string_actions)


def _parser(chosen: Sequence[Command]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="greenlane",
        description="Keeps Python services fast when they mix CPU work and I/O in one process.",
        epilog=_epilog(),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"greenlane {__version__}")
    parser.set_defaults(command=None, parser=parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=_Parser)
    for command in chosen:
        sub = commands.add_parser(command.name, help=command.summary, description=command.summary, allow_abbrev=False)
        command.declare(sub)
        sub.set_defaults(command=command, parser=sub)
    return parser


def _epilog() -> str:
    absent: dict[str, list[str]] = {}
    for name in missing():
        absent.setdefault(DISTRIBUTIONS[name], []).append(name)
    more = "".join(f"{', '.join(names)}: pip install {distribution}. " for distribution, names in absent.items())
    return f"{more}Exit codes: 0 well, 1 the run failed, 2 usage or settings."


def _silence(stream: TextIO) -> None:
    """Lets what is still buffered go nowhere, or the interpreter would complain of it when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
