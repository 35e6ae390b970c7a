"""What the services of a run have in common: a folder with their files, and the values that braces stand for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["Site", "child_environment", "copied"]

#: Of what is copied: what an editor or interpreter leaves behind.
_LEFT_BEHIND: Final = shutil.ignore_patterns("__pycache__", "*.pyc")


@dataclass(frozen=True)
class Site:
    """Where the services of a run live."""

    folder: Path
    iterations_per_ms: int = 0
    # "NAME.address" and "NAME.port" of shared services.
    shared: Mapping[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, str]:
        """What braces stand for in every command."""
        return {
            "python": sys.executable,
            "folder": str(self.folder),
            "iterations_per_ms": str(self.iterations_per_ms),
            **self.shared,
        }

    def own(self, number: int) -> Path:
        """A folder for the sockets of one contender; made when missing. A socket's path has at most 107 bytes."""
        folder = self.folder / f".{number}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder


def copied(scenario: Scenario, folder: Path) -> None:
    """Copies the files of all services into the folder, under their own names."""
    for service in scenario.services:
        for name in service.files:
            source = scenario.folder / name
            if source.is_dir():
                shutil.copytree(source, folder, ignore=_LEFT_BEHIND, dirs_exist_ok=True)
            else:
                shutil.copy(source, folder)


def child_environment() -> dict[str, str]:
    """Our own environment for a child that runs in another folder: a relative PYTHONPATH stays what it was."""
    env = dict(os.environ)
    if path := env.get("PYTHONPATH"):
        env["PYTHONPATH"] = os.pathsep.join(str(Path(part).resolve()) for part in path.split(os.pathsep))
    return env
