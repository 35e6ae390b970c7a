"""How `greenlane` reads its arguments: help that fits one screen, usage errors that end in one hint."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from greenlane.errors import without_passwords
from greenlane.settings.refusal import nearest, removed

__all__ = ["HelpAll", "Parser", "described"]

# Wide enough for most flags with their value, so that few take two lines.
_HELP_COLUMN: Final = 28


class Parser(argparse.ArgumentParser):
    """An ArgumentParser in the house's form. Its usage line names positional and required arguments only."""

    #: Gives the hint for a flag that is none, "" = the nearest one.
    foreign: Callable[[str], str] = staticmethod(removed)

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", _formatter)
        options.setdefault("allow_abbrev", False)
        super().__init__(**options)

    def format_help(self) -> str:
        """The help; `usage` is set for good."""
        if self.usage is None:
            self.usage = _usage(self)
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """Exits with 2: what is wrong, then one hint."""
        hint = self._nearest(message) or f"see `{self.prog} --help`"
        self.exit(2, f"{self.prog}: {without_passwords(message)}\nhint: {hint}\n")

    def _nearest(self, message: str) -> str:
        found = re.search(r"invalid choice: '([^']+)'|unrecognized arguments: ([^\s=]+)", message)
        if not found:
            return ""
        choices = [str(choice) for action in self._actions for choice in action.choices or ()]
        if found[1]:
            return nearest(found[1], choices)
        return self.foreign(found[2]) or nearest(found[2], self._option_string_actions)


class HelpAll(argparse.Action):
    """`--help-all`: the help with the flags that `--help` leaves out.

    Args:
        hidden: each of those flags with its text; filled by the caller until the arguments are read.
    """

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        hidden: dict[argparse.Action, str] = options.pop("hidden")
        super().__init__(option_strings, dest, nargs=0, **options)
        self._hidden = hidden

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        """Prints the help and exits."""
        for action, text in self._hidden.items():
            action.help = text
        parser.print_help()
        parser.exit()


def described(summary: str, examples: Sequence[str]) -> dict[str, Any]:
    """The options of a parser that say what a command is for, and show its use."""
    lines = "".join(f"\n  {example}" for example in examples)
    options = {"help": summary, "description": summary[:1].upper() + summary[1:] + "."}
    return {**options, "epilog": f"examples:{lines}"} if examples else options


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=_HELP_COLUMN)


def _usage(parser: argparse.ArgumentParser) -> str:
    words = [parser.prog.replace("%", "%%"), "[OPTION ...]"]
    for action in parser._actions:
        if action.help == argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):
            continue
        if action.option_strings:
            words += [f"{action.option_strings[0]} {_argument_name(action)}"] if action.required else []
        else:
            words.append(_positional(action))
    return " ".join(words)


def _positional(action: argparse.Action) -> str:
    name = _argument_name(action)
    if action.nargs == "?":
        return f"[{name}]"
    return f"{name} [{name} ...]" if action.nargs == "+" else name


def _argument_name(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None and not action.option_strings:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()
