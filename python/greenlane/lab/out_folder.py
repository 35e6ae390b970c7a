"""The folder of `--out`: tried before a run, since one that cannot be written must not cost minutes first."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from greenlane.errors import SettingsError

__all__ = ["made", "trying", "written"]


@contextlib.contextmanager
def trying(folder: Path, attempted: str) -> Iterator[None]:
    """Turn an OSError of the block, which writes there, into a SettingsError that names the folder.

    Args:
        folder: of `--out`.
        attempted: what is being done, as a verb phrase.
    """
    try:
        yield
    except OSError as error:
        rule = f"a folder that can be written ({error.strerror})"
        raise SettingsError("--out", str(folder), rule, "give another folder", attempted=attempted) from None


def made(folder: Path, attempted: str) -> None:
    """Make the folder, and those above it. Raises SettingsError."""
    with trying(folder, attempted):
        folder.mkdir(parents=True, exist_ok=True)


def written(path: Path, text: str) -> None:
    """Write a file, and a line's end. Raises OSError that names it: of a full disk the kernel names none."""
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
