"""A digest of the installed packages: what a measured process or the load runs."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import Final

__all__ = ["digest"]

# What of each package runs while something is measured: a change of the rest does not change a result.
_MEASURED: Final = {
    "greenlane": ("*.so", "*.py", "[!c]*/**/*.py"),
    "greenlane_serve": ("*.py", "[!c]*/**/*.py"),
    "greenlane_work": ("[!c]*/**/*.py",),
    "greenlane_tools": ("*.so", "demo/*.py", "lab/load/*.py", "lab/run/gate.py", "lab/run/server.py"),
}


def digest(*extra: bytes) -> str:
    """Sixteen digits of the packages' files that matter, and of `extra`."""
    found = hashlib.sha256()
    for package, patterns in _MEASURED.items():
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted({path for pattern in patterns for path in Path(folder).glob(pattern)}):
                found.update(f"{package}/{path.relative_to(folder)}".encode() + b"\0" + path.read_bytes())
    for part in extra:
        found.update(part)
    return found.hexdigest()[:16]
