"""`greenlane plan profile SOURCE -o FILE`: a profile as a file, to keep, compare or complete by hand."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.errors import PlanError
from greenlane_tools.cli.plan.arguments import SOURCE, declare_skip


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the profile's file; - = stdout")
    declare_skip(parser)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan.sources import opened

    found = opened(arguments.source, skip_s=arguments.skip)
    _write(arguments.output, found.to_json(), output)
    for sentence in found.notes:
        output.say(f"note: {sentence}")
    return 0


def _write(to: str, content: bytes, output: Output) -> None:
    if to == "-":
        output.line(content.decode("utf-8"))
        return
    path = Path(to)
    try:
        path.write_bytes(content)
    except OSError as error:
        rule = f"a file that can be written ({error.strerror})"
        raise PlanError("write the profile", name="-o", value=to, rule=rule, hint="name another") from None
    output.say(f"profile: {path} ({len(content) / 1000:.0f} kB)")


COMMAND: Final = Command(
    "profile", "write a profile to keep, compare or complete by hand", _declare, _run,
    examples=("greenlane plan profile shop.glr -o shop.json", "greenlane plan profile shop.glr -o - --skip 10"),
)  # fmt: skip
