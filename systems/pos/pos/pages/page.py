"""The page as one file: it asks nobody but the backend that it came from."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent
POLICY: Final = (
    "default-src 'none'; connect-src 'self'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
)


@cache
def page() -> str:
    """Its HTML, with style and script inside."""
    text = (_HERE / "page.html").read_text("utf-8")
    for name in ("page.css", "page.js"):
        text = text.replace(f"@{name}@", (_HERE / name).read_text("utf-8"))
    return text
