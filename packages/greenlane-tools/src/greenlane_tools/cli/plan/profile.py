"""`greenlane plan profile SOURCE -o FILE`: a profile as a file, completed by what you know."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.errors import PlanError
from greenlane_tools.cli.plan.arguments import SOURCE, declare_skip

if TYPE_CHECKING:
    from greenlane_tools.plan.profile import Profile

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the profile's file; - = stdout")
    parser.add_argument("--name", help="of the service")
    parser.add_argument("--known", type=Path, metavar="TOML", help="lanes, deadlines, bytes, limits that you know")
    declare_skip(parser)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan.sources import opened

    found = opened(arguments.source, skip_s=arguments.skip)
    if arguments.known is not None:
        found = _known(found, arguments.known)
    if arguments.name is not None:
        found = replace(found, name=arguments.name)
    _write(arguments.output, found.to_json(), output)
    for sentence in found.notes:
        output.say(f"note: {sentence}")
    return 0


def _known(found: Profile, path: Path) -> Profile:
    from greenlane_tools.plan.model_file import with_known

    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        rule = f"a TOML file that can be read ({error})"
        raise PlanError("add what is known", name="--known", value=str(path), rule=rule) from None
    return with_known(found, text)


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


COMMAND: Final = Command("profile", "a profile as a file, completed by what you know", _declare, _run)
