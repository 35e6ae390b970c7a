"""A measuring command from its options: declared once, refused before anything runs, ended by Ctrl-C."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane_tools.lab.arguments import Values, declare, read
from greenlane_tools.lab.written import made

if TYPE_CHECKING:
    from greenlane_tools.lab.experiment.result import Result


def measuring(
    name: str, summary: str, options: type, attempted: str, module: str, examples: Sequence[str]
) -> Command:  # fmt: skip
    """The command `greenlane lab NAME`.

    Args:
        options: a dataclass; it has `json`, and `out`, the folder of the results or None.
        attempted: what it does, as a verb phrase.
        module: has `perform(options, output)`, which gives a Result, or None when there was nothing to measure. It is
            imported when the command runs, since it needs the extra `lab`.
    """
    values = Values(attempted, f"greenlane lab {name} --help lists every option")

    def run(arguments: argparse.Namespace, output: Output) -> int:
        given = options(**read(options, values, arguments))
        with needed("lab", attempted):
            import numpy  # noqa: F401 - of every one of them

            from greenlane_tools.lab.ending import ended_by_signals

            perform = import_module(module).perform
        if given.out is not None:
            made(given.out, attempted)
        try:
            with ended_by_signals():
                result: Result | None = perform(given, output)
        except KeyboardInterrupt:
            output.say("stopped: all processes ended; nothing is kept of the runs so far")
            return 130
        if result is None:
            return 0
        with needed("lab", attempted):
            return result.show(given.out, attempted, output, as_json=given.json)

    return Command(name, summary, lambda parser: declare(options, parser), run, examples=tuple(examples))
