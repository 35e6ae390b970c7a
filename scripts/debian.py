"""Debian's packages without installing them: downloaded by a private apt, and unpacked into a folder of its own.

The machine's own lists, sources and installed packages stay as they are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


class CannotError(Exception):
    """Something is missing on this machine; the message names it."""


class PrivateApt:
    """An apt of its own.

    Args:
        folder: for its lists, kept from run to run.
        arches: Debian's names of the processors whose packages it knows, such as `amd64`.
        suite: the suite that it reads, from the machine's own mirror; None = the machine's sources.
    """

    def __init__(self, folder: Path, arches: Sequence[str], suite: str | None = None) -> None:
        """Fetch the lists: some seconds."""
        if shutil.which("apt-get") is None:
            raise CannotError("no apt-get here: Debian's packages are what this needs")
        for each in ("state", "lists/partial", "cache/archives/partial"):
            (folder / each).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        known = " ".join(f'"{arch}";' for arch in arches)
        lines = [
            f"APT::Architectures {{{known}}};",
            f'Dir::State "{folder}/state";',
            f'Dir::State::Lists "{folder}/lists";',
            f'Dir::State::status "{folder}/status";',
            f'Dir::Cache "{folder}/cache";',
            'APT::Sandbox::User "root";',
        ]
        if suite is not None:
            (folder / "sources.list").write_text(f"deb {_mirror()} {suite} main\n")
            lines += [f'Dir::Etc::sourcelist "{folder}/sources.list";', 'Dir::Etc::sourceparts "-";']
        (folder / "conf").write_text("\n".join(lines) + "\n")
        self._environment = os.environ | {"APT_CONFIG": str(folder / "conf")}
        self._folder = folder
        self._told("apt-get", "update", "-qq")

    def depends(self, package: str, prefix: str) -> str | None:
        """Give the first package that `package` depends on and whose name begins with `prefix`."""
        for line in self._told("apt-cache", "depends", package).splitlines():
            kind, _, name = line.strip().partition(": ")
            if kind == "Depends" and name.startswith(prefix):
                return name
        return None

    def all_for(self, *packages: str) -> list[str]:
        """Give `packages` and everything that they depend on, down to libc."""
        asked = ("apt-get", "install", "-s", "-qq", "--no-install-recommends", *packages)
        lines = [line.split() for line in self._told(*asked).splitlines()]
        return [words[1] for words in lines if words[:1] == ["Inst"]]

    def unpack(self, packages: Sequence[str], root: Path) -> None:
        """Download `packages`, and unpack them below `root`; their scripts do not run."""
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            self._told("apt-get", "download", "-qq", *packages, cwd=folder)
            for package in sorted(Path(folder).glob("*.deb")):
                subprocess.run(["dpkg", "-x", package, root], check=True)

    def _told(self, *command: str, cwd: str | None = None) -> str:
        ran = subprocess.run(command, env=self._environment, cwd=cwd, text=True, capture_output=True, check=False)
        if ran.returncode:
            raise CannotError(f"{' '.join(command[:4])} failed: {(ran.stderr or ran.stdout).strip()[-500:]}")
        return ran.stdout


def _mirror() -> str:
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)"], text=True, capture_output=True, check=False
    ).stdout.split()
    sites = [site for site in told if not site.rstrip("/").endswith("-security")]
    if not sites:
        raise CannotError("apt has no mirror to fetch from: see /etc/apt/sources.list, and run apt-get update")
    return max(sites, key=sites.count)
