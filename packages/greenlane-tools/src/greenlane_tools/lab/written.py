"""What a measuring command leaves in a folder: written in one step; obstacles are reported before the start."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from greenlane.errors import SettingsError


@contextlib.contextmanager
def trying(folder: Path, attempted: str) -> Iterator[None]:
    """Turns an OSError of the block, which writes there, into a SettingsError that names the folder.

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
    """Makes the folder of `--out`, and those above it. Raises SettingsError."""
    with trying(folder, attempted):
        folder.mkdir(parents=True, exist_ok=True)


def prepared(folder: Path, first: str, text: str, attempted: str) -> None:
    """Makes the folder of `--out` with its first file in it: a run of minutes shall not end at the disk.

    Raises:
        SettingsError: it cannot be written.
    """
    with trying(folder, attempted):
        folder.mkdir(parents=True, exist_ok=True)
        written(folder / first, text)


def written(path: Path, text: str) -> None:
    """Writes a file. Raises OSError that names it: of a full disk the kernel names none."""
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        error.filename = error.filename or str(path)
        raise
