"""Commands whose packages are an extra: without them, what to install instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from greenlane.errors import SettingsError

__all__ = ["needed"]


@contextmanager
def needed(extra: str, attempted: str) -> Iterator[None]:
    """Around imports.

    Args:
        extra: the name in `greenlane[extra]`.
        attempted: what the command does, as a verb phrase.

    Raises:
        SettingsError: a third-party package is missing. A missing module of Greenlane is a bug: ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "greenlane":
            raise
        rule, hint = f"the packages of the extra {extra}", f"pip install 'greenlane[{extra}]'"
        raise SettingsError("module", error.name, rule, hint, attempted=attempted) from None
