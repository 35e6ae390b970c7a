"""`python -m feed.drawings rows.json [--out drawings]`: stages.svg, service-map.svg, ladder.svg."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from feed.children import ROOT

from .drawn import ladder, service_map, stages
from .rows import Step, steps

_DRAWN: Final[Mapping[str, Callable[[Sequence[Step]], str]]] = {
    "stages.svg": stages,
    "service-map.svg": lambda found: service_map(found, before="pool"),
    "ladder.svg": ladder,
}


def drawn(rows: Path) -> dict[str, str]:
    """Every drawing of these rows by its file's name.

    Raises:
        ValueError: the rows are not the ladder's.
    """
    found = steps(rows)
    return {name: draw(found) for name, draw in _DRAWN.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 written; 2 no rows."""
    parser = argparse.ArgumentParser(prog="python -m feed.drawings", description=(__doc__ or "").partition(":")[2])
    parser.add_argument("rows", type=Path, help="what `greenlane demo feed` left: out/demo/feed/rows.json")
    parser.add_argument("--out", type=Path, default=ROOT / "drawings", help="folder for the drawings")
    given = parser.parse_args(argv)
    try:
        made = drawn(given.rows)
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"{error}\nhint: greenlane demo feed --out FOLDER writes FOLDER/rows.json\n")
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        (given.out / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{given.out / name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
