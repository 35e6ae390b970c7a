"""A digest of the installed package: what a measured process or the load runs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

__all__ = ["digest"]

_ROOT: Final = Path(__file__).resolve().parents[2]
# Parts of the package whose change does not change what is measured.
_APART: Final = (
    "cli",
    "export",
    "page",
    "report",
    "lab/part3",
    "lab/accept",
    "lab/doctor",
    "lab/compare",
    "lab/scenario",
)
_APART_HERE: Final = tuple(
    f"lab/run/{name}"
    for name in ("tables", "page", "sections", "conclusion", "judged", "remarks", "rows", "runner", "document")
)
_APART_DEMO: Final = tuple(f"demo/{name}" for name in ("page", "strips", "command", "options", "conclusion"))


def digest(*extra: bytes) -> str:
    """Sixteen digits of the package's files that matter, and of `extra`."""
    found = hashlib.sha256()
    for path in sorted(_ROOT.rglob("*")):
        name = path.relative_to(_ROOT).as_posix()
        if path.suffix in (".py", ".so") and not name.startswith((*_APART, *_APART_HERE, *_APART_DEMO)):
            found.update(name.encode() + b"\0" + path.read_bytes())
    for part in extra:
        found.update(part)
    return found.hexdigest()[:16]
