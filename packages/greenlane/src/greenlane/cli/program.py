"""The commands put together: arguments are read, one command runs, what happened becomes an exit code."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from greenlane._native import __version__
from greenlane.cli.command import Command
from greenlane.cli.commands import EXTRAS, GROUPS, OLD, installed, known, missing
from greenlane.cli.extra import install
from greenlane.cli.output import Output
from greenlane.cli.parser import Parser, described
from greenlane.errors import GreenlaneError

__all__ = ["run"]

# Ways to run that are no commands in greenlane.
_IN_YOUR_SERVER: Final = (
    "In your own server, without a command of greenlane:",
    "  WSGI: gunicorn -k greenlane.hosts.gunicorn.Worker --threads 64 app:app",
    "  ASGI: app.add_middleware(Greenlane), from greenlane.hosts.asgi",
)


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
        _point_to_page(error, output)
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
    argv = _rename(argv, output)
    commands = _find_wanted(argv)
    parser = _parser(commands)
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may follow; see `greenlane[completion]`
        import argcomplete

        argcomplete.autocomplete(parser)
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


def _rename(argv: Sequence[str], output: Output) -> Sequence[str]:
    """With today's name of a command, and one line of notice for a name of earlier releases."""
    if not argv or argv[0] not in OLD:
        return argv
    words = OLD[argv[0]]
    output.say(f"greenlane: `greenlane {argv[0]}` is now `greenlane {' '.join(words)}`")
    return [*words, *argv[1:]]


def _find_wanted(argv: Sequence[str]) -> list[Command]:
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


def _parser(chosen: Sequence[Command]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="greenlane",
        usage="greenlane COMMAND [OPTION ...]    (greenlane COMMAND --help explains one)",
        description="Keeps Python services fast when they mix CPU work and I/O in one process.",
        epilog=_epilog(chosen),
    )
    parser.add_argument("--version", action="version", version=f"greenlane {__version__}")
    parser.set_defaults(command=None, parser=parser)
    # The epilog lists them in groups.
    commands = parser.add_subparsers(metavar="COMMAND", help=argparse.SUPPRESS, prog="greenlane", parser_class=Parser)
    for command in chosen:
        options = described(command.summary, command.examples)
        del options["help"]
        sub = commands.add_parser(command.name, **options)
        command.declare(sub)
        sub.set_defaults(command=command, parser=sub)
    return parser


def _epilog(chosen: Sequence[Command]) -> str:
    summaries = {command.name: command.summary for command in chosen}
    grouped = {name for names in GROUPS.values() for name in names}
    lines = []
    for title, names in {**GROUPS, "More": [name for name in summaries if name not in grouped]}.items():
        lines += [f"{title}:"] if any(name in summaries for name in names) else []
        lines += [f"  {name:<14}{summaries[name]}" for name in names if name in summaries]
        lines += _IN_YOUR_SERVER if title == "Run" else ()
    absent: dict[str, list[str]] = {}
    for name in missing():
        absent.setdefault(EXTRAS[name], []).append(name)
    lines += [f"Not installed: {', '.join(names)} ({install(extra)})" for extra, names in absent.items()]
    return "\n".join([*lines, "", "Exit codes: 0 well, 1 the run failed, 2 usage or settings."]).replace("%", "%%")


def _point_to_page(error: GreenlaneError, output: Output) -> None:
    from greenlane.cli.explain import number_of

    number = number_of(error.code)
    if number:
        output.say(f"more: greenlane explain {number}")


def _silence(stream: TextIO) -> None:
    """Lets what is still buffered go nowhere, or the interpreter would complain of it when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
