"""Scenarios by name: those that ship in the wheel, and those of the checkout."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from greenlane.errors import SettingsError
from greenlane.settings.refusal import nearest

__all__ = ["ATTEMPTED", "found", "known", "questions"]

ATTEMPTED: Final = "run a scenario"
_PACKAGE: Final = Path(__file__).resolve().parents[2]
SUFFIX: Final = ".toml"


def folders() -> list[Path]:
    """Where they are looked for: the wheel's, then the checkout's that the package lies in."""
    return [_PACKAGE / "demo", _PACKAGE.parents[3] / "lab" / "scenarios"]


def known() -> dict[str, Path]:
    """All that have a name, by it."""
    return {path.stem: path for folder in folders() for path in sorted(folder.glob(f"*{SUFFIX}"))}


def found(named: str) -> Path:
    """The file of a scenario: a name that is known, or a path.

    Raises:
        SettingsError: there is none.
    """
    path = Path(named)
    if path.suffix == SUFFIX or "/" in named:
        if path.is_file():
            return path
        raise SettingsError("FILE", named, "a scenario file that exists", "greenlane lab run --list names those that "
                            "are here", attempted=ATTEMPTED)  # fmt: skip
    there = known()
    if named not in there:
        hint = nearest(named, there) or "greenlane lab run --list names them; a file of your own ends in .toml"
        raise SettingsError("NAME", named, f"one of {', '.join(sorted(there))}", hint, attempted=ATTEMPTED)
    return there[named]


def questions() -> Iterator[tuple[str, str, Path]]:
    """(name, question, file) of those that are known; a file that cannot be read has its fault for a question."""
    for name, path in sorted(known().items()):
        try:
            asked = str(tomllib.loads(path.read_text("utf-8")).get("question", ""))
        except (OSError, ValueError) as error:
            asked = f"cannot be read: {error}"
        yield name, asked, path
