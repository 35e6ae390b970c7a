"""`greenlane demo`: the demonstration that ships in the wheel, and those of the systems, which run from a checkout."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane.errors import PlatformError

__all__ = ["COMMAND"]

#: Demo -> the module whose `main(argv, out, err)` it is.
DEMOS: Final = {
    "pricing": "greenlane_tools.lab.pricing", "feed": "feed.ladder.command", "offers": "offers.demo.command",
    "pos": "pos.demo.command",
}  # fmt: skip
#: The package that runs now.
PACKAGE: Final = Path(__file__).resolve().parents[1]
#: Those of a system: the folder below `systems` that has their packages.
SYSTEMS: Final = {"feed": "feed", "offers": "offers", "pos": "pos"}
_HELP: Final = (
    "pricing (the default): a Flask service under load, by several servers in turn; "
    "feed: a recommendation service in nine variants (from a checkout); "
    "offers: a phone's bike and scooter offers, missing under the stock server, there with each fix (from a checkout); "
    "pos: orders to ten merchants, one of them slow, through Celery's workers and ours (from a checkout)"
)


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", choices=tuple(DEMOS), default="pricing", help=_HELP)
    parser.add_argument(
        "rest", nargs=argparse.REMAINDER, metavar="...", help="its options; `greenlane demo pricing --help`"
    )


def _run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.name in SYSTEMS:
        sys.path.insert(0, str(_system(arguments.name)))
    command = _imported(arguments.name)
    with needed("demo", "start the demo"):
        code: int = command.main(arguments.rest, output.out, output.err)
    return code


def _imported(name: str) -> ModuleType:
    """Raises PlatformError where a package is missing: a system's are the checkout's, the other's an extra."""
    if name not in SYSTEMS:
        return importlib.import_module(DEMOS[name])
    try:
        return importlib.import_module(DEMOS[name])
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in ("greenlane", "greenlane_tools", *SYSTEMS.values()):
            raise
        rule = f"what systems/{SYSTEMS[name]} needs, installed"
        raise PlatformError(
            f"start the demo {name}", name="module", value=error.name, rule=rule, hint="make build"
        ) from None


def _system(name: str) -> Path:
    """Where the system lies: beside the package that runs now, if that is a checkout's.

    Raises:
        PlatformError: it is not.
    """
    folder = PACKAGE.parents[3] / "systems" / SYSTEMS[name]
    if not folder.is_dir():
        raise PlatformError(
            f"start the demo {name}", name="greenlane", value=str(PACKAGE),
            rule=f"a checkout of Greenlane, which has systems/{SYSTEMS[name]}; installed packages have none",
            hint="clone the repository, `make build`, and run .venv/bin/greenlane there",
        )  # fmt: skip
    return folder


COMMAND: Final = Command(
    "demo", "run a demonstration: stock servers and Greenlane side by side", _declare, _run,
    examples=("greenlane demo", "greenlane demo pricing --help"),
)  # fmt: skip
