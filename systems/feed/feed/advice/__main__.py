"""`python -m feed.advice`: measures the article's advice; tables on stdout, or one JSON object."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from feed.world.world import ITEMS, kept
from greenlane_tools.lab.environment import about

from .page import page, tables
from .payload import Payload
from .row import Row

# Module and function of the same name; a module is imported when its switch is measured.
SWITCHES: Final[Mapping[str, str]] = {
    "json": "json_libraries", "validation": "validation", "formats": "formats", "compression": "compression",
    "collector": "collector",
}  # fmt: skip

_PACKAGES: Final = ("msgpack", "msgspec", "orjson", "protobuf", "pyarrow", "pydantic", "zstandard")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 well, 2 usage."""
    given = _parser().parse_args(argv)
    if given.page:
        sys.stdout.write(page(json.loads(given.page.read_text("utf-8"))))
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    found = _measured(given)
    sys.stdout.write(json.dumps(_document(given, found), indent=1) + "\n" if given.json else tables(found))
    return 0


def _measured(given: argparse.Namespace) -> list[Row]:
    payload = Payload(kept(given.folder, items=given.items), most=given.most)
    found: list[Row] = []
    for name in given.only or SWITCHES:
        _told(f"measuring: {name}")
        switch: Callable[[Payload, int], list[Row]] = getattr(
            import_module(f".{SWITCHES[name]}", __package__), SWITCHES[name]
        )
        found += switch(payload, given.repetitions)
    return found


def _document(given: argparse.Namespace, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "schema": "greenlane.feed-advice/1",
        "environment": about(_PACKAGES),
        "repetitions": given.repetitions,
        "rows": [asdict(row) | {"advice": row.advice} for row in rows],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m feed.advice", description=(__doc__ or "").partition(": ")[2])
    add = parser.add_argument
    add("--only", type=_switches, help=f"some of {', '.join(SWITCHES)}")
    add("--json", action="store_true", help="one JSON object on stdout in place of the tables")
    add("--repetitions", type=_from_one, default=9, help="of each function, in turn (9)")
    add("--folder", type=Path, default=Path("out/feed"), help="where the world is kept (out/feed)")
    add("--items", type=_from_one, default=ITEMS, help=f"of the world ({ITEMS})")
    add("--most", type=_from_one, default=3_000, help="of a request (3000)")
    add("--page", type=Path, metavar="JSON", help="measure nothing: write the page of docs from a --json object")
    return parser


def _switches(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",")]
    unknown = [name for name in names if name not in SWITCHES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}, expected some of {', '.join(SWITCHES)}")
    return names


def _from_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number from 1")
    return value


def _told(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
