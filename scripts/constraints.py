"""Which releases the development environment has: `constraints.txt`, from environments whose tests have passed.

    python scripts/constraints.py .venv .venv-3.12 ...           what these have that the file does not say
    python scripts/constraints.py --write .venv .venv-3.12 ...   the file again, from these

Environments of several versions of CPython in one file: where they differ, a line says from which version on.
Exit 0. Exit 2: there is no such environment.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).resolve().parent.parent / "constraints.txt"
_HEAD: Final = """\
# What `make build` installs, so that everybody has the same: scripts/constraints.py writes it from environments whose
# tests have passed. `make newest` tries without it, and says what is newer.
"""
#: pip itself is made new by the Makefile; ours are installed in place.
_NOT_OURS: Final = re.compile(r"^(pip|setuptools|greenlane[\w-]*)$")
_VERSION: Final = "import sys; print('%d.%d' % sys.version_info[:2])"


def main() -> int:
    """Run it; see the module."""
    parser = argparse.ArgumentParser(prog="constraints", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="the file again")
    parser.add_argument("environments", type=Path, nargs="+")
    options = parser.parse_args()
    found: dict[str, dict[str, str]] = {}
    for environment in options.environments:
        python = environment / "bin" / "python"
        if not python.exists():
            print(f"constraints: no environment in {environment}", file=sys.stderr)
            return 2
        found[_told(python, "-c", _VERSION)] = _releases(python)
    lines = list(_lines(found))
    if options.write:
        FILE.write_text(_HEAD + "".join(f"{line}\n" for line in lines), "utf-8")
    else:
        known = {line.partition(";")[0].strip() for line in FILE.read_text("utf-8").splitlines()}
        news = sorted({line.partition(";")[0].strip() for line in lines} - known)
        print(f"{len(news)} other than in {FILE.name}" + "".join(f"\n   {each}" for each in news))
    return 0


def _lines(found: Mapping[str, Mapping[str, str]]) -> list[str]:
    pythons = sorted(found, key=lambda python: int(python.partition(".")[2]))
    lines = []
    for name in sorted({name for releases in found.values() for name in releases}):
        changes = [(python, found[python][name]) for python in pythons if name in found[python]]
        since = [at for at, (_, release) in enumerate(changes) if at == 0 or release != changes[at - 1][1]]
        for place, at in enumerate(since):
            last = place == len(since) - 1
            conditions = [] if at == 0 else [f"python_version >= '{changes[at][0]}'"]
            conditions += [] if last else [f"python_version < '{changes[since[place + 1]][0]}'"]
            marker = f"; {' and '.join(conditions)}" if conditions else ""
            lines.append(f"{name}=={changes[at][1]}{marker}")
    return lines


def _releases(python: Path) -> dict[str, str]:
    lines = _told(python, "-m", "pip", "freeze", "--exclude-editable").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    named = {re.sub(r"[-_.]+", "-", name).lower(): release for name, release in pairs}
    return {name: release for name, release in named.items() if not _NOT_OURS.match(name)}


def _told(python: Path, *arguments: str) -> str:
    return subprocess.run([python, *arguments], text=True, capture_output=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
