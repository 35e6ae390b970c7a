"""Other versions of the application beside it: groups of workers that are loaded from another directory."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from greenlane.errors import SettingsError
from greenlane.settings import Settings

__all__ = ["directory_of", "group_of", "python_of", "version_groups", "version_of", "without_versions"]

_PREFIX: Final = "version-"
_ATTEMPT: Final = "read the versions"


def group_of(version: str) -> str:
    """The group of its workers, and the front's backend."""
    return _PREFIX + version


def version_of(group: str) -> str:
    """The version of a group; "" = the application itself."""
    return group.removeprefix(_PREFIX) if group.startswith(_PREFIX) else ""


def version_groups(settings: Settings, shared: int) -> dict[str, int]:
    """Group -> workers.

    Args:
        shared: workers of the application itself that are shared.

    Raises:
        SettingsError: a name that is none, or a directory that is not there.
    """
    for name, directory in settings.versions.items():
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", name):
            rule = "a name of 1 to 40 of the characters A-Z a-z 0-9 _ . -"
            raise SettingsError("versions", name, rule, "rename the version", attempted=_ATTEMPT)
        if not os.path.isdir(directory):
            hint = "check the new version out there, or leave it out"
            raise SettingsError(f"versions.{name}", directory, "a directory that exists", hint, attempted=_ATTEMPT)
    return {group_of(name): settings.version_workers or shared for name in settings.versions}


def directory_of(settings: Settings, group: str) -> str | None:
    """Where the workers of a group are started; None = here."""
    version = version_of(group)
    return os.path.abspath(settings.versions[version]) if version else None


def python_of(directory: str | None) -> str:
    """The interpreter of a directory: its own `.venv`'s where it has one, else ours."""
    own = Path(directory) / ".venv" / "bin" / "python" if directory else None
    return str(own) if own is not None and own.exists() else sys.executable


def without_versions(settings: Settings) -> Settings:
    """The application itself: what is beside it on one machine is no matter of a fleet."""
    return replace(settings, versions={}, version_workers=0, version_header="")
