"""`greenlane plan profile SOURCE… -o FILE`: a profile as a file, merged, completed, made anonymous."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.errors import PlanError
from greenlane_tools.cli.plan.arguments import SOURCE, declare_looking

if TYPE_CHECKING:
    from greenlane_tools.plan.profile import Profile

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the profile's file; - = stdout")
    parser.add_argument("--name", help="of the service")
    parser.add_argument(
        "--merge", nargs="+", default=[], metavar="SOURCE", help="profiles of other times: seconds add up"
    )
    parser.add_argument(
        "--beside", nargs="+", default=[], metavar="SOURCE", help="profiles of other machines, same time: rates add up"
    )
    parser.add_argument("--known", type=Path, metavar="TOML", help="lanes, deadlines, bytes, limits that you know")
    parser.add_argument("--anonymous", action="store_true", help="tokens for all names, the same each time")
    declare_looking(parser)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from dataclasses import replace

    from greenlane_tools.plan.merging import When, merged
    from greenlane_tools.plan.missing import missing
    from greenlane_tools.plan.sources import opened

    def sources(texts: list[str]) -> list[Profile]:
        return [opened(text, seconds=arguments.seconds, skip_s=arguments.skip) for text in texts]

    found = opened(arguments.source, seconds=arguments.seconds, skip_s=arguments.skip)
    found = merged([found, *sources(arguments.beside)], When.SAME_TIME)
    found = merged([found, *sources(arguments.merge)], When.ANOTHER_TIME)
    if arguments.known is not None:
        found = _known(found, arguments.known)
    if arguments.name is not None:
        found = replace(found, name=arguments.name)
    if arguments.anonymous:
        found = _anonymous(found)
    _write(arguments.output, found.to_json(), output)
    for sentence in missing(found):
        output.say(f"missing: {sentence}")
    return 0


def _known(found: Profile, path: Path) -> Profile:
    from greenlane_tools.plan.known import with_known

    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        rule = f"a TOML file that can be read ({error})"
        raise PlanError("add what is known", name="--known", value=str(path), rule=rule) from None
    return with_known(found, text)


def _anonymous(found: Profile) -> Profile:
    from greenlane_tools.cli.plan.names_key import names_key
    from greenlane_tools.plan.anonymous import anonymised

    return anonymised(found, names_key())


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


COMMAND: Final = Command("profile", "a profile as a file: merged, completed, made anonymous", _declare, _run)
