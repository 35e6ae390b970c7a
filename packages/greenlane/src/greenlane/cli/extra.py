"""Extras: the command that installs one, and what to say instead of a traceback where it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, metadata

from greenlane._native import __version__
from greenlane.errors import PlatformError

__all__ = ["install", "needed"]


def install(extra: str) -> str:
    """The command that adds `greenlane[extra]`, of this very version.

    It names the index only in a release, which has the forge's address (scripts/release.py); else `dist`, where `make
    wheel` puts the wheels.
    """
    try:
        is_release = "Project-URL" in metadata("greenlane")
    except PackageNotFoundError:
        is_release = False
    return f"pip install {'' if is_release else '--find-links dist '}'greenlane[{extra}]=={__version__}'"


@contextmanager
def needed(extra: str, attempted: str) -> Iterator[None]:
    """Around imports.

    Args:
        extra: the name in `greenlane[extra]`.
        attempted: what the command does, as a verb phrase.

    Raises:
        PlatformError: a third-party package is missing. A missing module of Greenlane is a bug: ModuleNotFoundError.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "greenlane":
            raise
        rule = f"the packages of the extra {extra}"
        raise PlatformError(attempted, name="module", value=error.name, rule=rule, hint=install(extra)) from None
