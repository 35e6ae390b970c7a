"""What a command of `greenlane` is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from greenlane.cli.output import Output

__all__ = ["Command"]


@dataclass(frozen=True)
class Command:
    """A name, its help, its arguments and what it does."""

    name: str
    # One line; the help of `greenlane --help`.
    summary: str
    # Declares the command's arguments.
    declare: Callable[[argparse.ArgumentParser], None]
    # Returns the exit code; raises GreenlaneError for what the user can act on.
    run: Callable[[argparse.Namespace, Output], int]
    # What stands after `--` is another program's, and comes as `arguments.passed_on`.
    passes_on: bool = False
    # The words of which one stands first, and the one that is meant where none does: `greenlane plan FILE`.
    subcommands: tuple[str, ...] = ()
    implied: str = ""
    # Command lines; the help shows them as they are.
    examples: tuple[str, ...] = ()
