"""Servers in virtual environments of their own: made once under `out/lab/environments`, used again, never shared.

An old gunicorn beside a new one in the caller's environment is impossible, and the caller's environment is not ours to
change. What cannot be installed is left out by name with pip's reason; no connection to the package index is one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from greenlane_tools.lab.processes import die_with_parent

__all__ = ["CURRENT", "Environment", "Recipe", "Skipped", "existing", "ready", "reason"]

#: The version of a recipe that takes what the package index offers.
CURRENT: Final = "current"
#: Written last: an environment without it was not finished.
_MARK: Final = "ready.json"
_VENV_S: Final = 120.0
_INSTALL_S: Final = 300.0
_OFFLINE: Final = ("NewConnectionError", "name resolution", "Network is unreachable", "ConnectTimeout", "Max retries")
# Asked of a finished environment; what counts is what it can import, not what pip said.
_VERSIONS: Final = """
import importlib.metadata as metadata, json, sys
print(json.dumps({name: metadata.version(name) for name in sys.argv[1:]}))
"""


@dataclass(frozen=True)
class Recipe:
    """What an environment holds."""

    # The server's distribution: "gunicorn".
    name: str
    # "20.0.4", or CURRENT.
    version: str
    # pip's requirements beside the server itself.
    others: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The environment's folder: `<name>-<version>-py<X.Y>`."""
        return f"{self.name}-{self.version}-py{sys.version_info.major}.{sys.version_info.minor}"

    def requirements(self) -> list[str]:
        """pip's arguments."""
        server = self.name if self.version == CURRENT else f"{self.name}=={self.version}"
        return [server, *self.others]


@dataclass(frozen=True)
class Environment:
    """One that can be used."""

    python: Path
    # Installed versions by distribution.
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Skipped:
    """Why there is none."""

    reason: str


def existing(recipe: Recipe, root: Path) -> Environment | None:
    """The environment, if it was made before and its interpreter is still there."""
    # Servers run in folders of their own. Not resolved: a virtual environment is known by where its python stands.
    folder = (root / recipe.folder).absolute()
    python = folder / "bin" / "python"
    try:
        versions = json.loads((folder / _MARK).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return Environment(python, versions) if python.exists() else None


def ready(recipe: Recipe, root: Path, say: Callable[[str], None]) -> Environment | Skipped:
    """The environment, made if it is not there: some seconds and the package index.

    Args:
        root: folder of all environments; made if absent.
        say: told when one is made.
    """
    if found := existing(recipe, root):
        return found
    folder = root / recipe.folder
    say(f"making {folder}")
    try:
        return _made(recipe, folder.absolute())
    except (OSError, subprocess.SubprocessError) as error:
        return Skipped(_first_line(str(error)))


def _made(recipe: Recipe, folder: Path) -> Environment | Skipped:
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    made = _run([sys.executable, "-m", "venv", "--clear", str(folder)], _VENV_S)
    if made.returncode:
        return Skipped(f"python -m venv: {_last_line(made.stderr or made.stdout)}")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    installed = _run([*pip, "--retries", "1", "--timeout", "15", *recipe.requirements()], _INSTALL_S)
    if installed.returncode:
        return Skipped(reason(installed.stderr))
    names = [requirement.partition("=")[0].partition("<")[0] for requirement in recipe.requirements()]
    asked = _run([str(python), "-c", _VERSIONS, *names], _VENV_S)
    if asked.returncode:
        return Skipped(_last_line(asked.stderr))
    versions = json.loads(asked.stdout)
    (folder / _MARK).write_text(json.dumps(versions), encoding="utf-8")
    return Environment(python, versions)


def _run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds,
        check=False, process_group=0, preexec_fn=die_with_parent,
    )  # fmt: skip


def reason(stderr: str) -> str:
    """Why pip could not install, from what it said."""
    if any(sign in stderr for sign in _OFFLINE):
        return "offline: pip cannot reach the package index"
    return f"pip: {_last_line(stderr)}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200]


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if not line.startswith(("hint:", "note:", "[notice]"))]
    return lines[-1].strip()[:200] if lines else "no reason given"
