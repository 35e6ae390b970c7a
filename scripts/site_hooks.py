"""Hooks of mkdocs: README is the first page, and links to files outside docs/ become plain paths."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
_MEASURED = re.compile(r"<!-- measured: (.+?); tree: (\w+); of: .+? -->")
_LINK = re.compile(r"\[([^\]]*)\]\(((?!https?://|#|mailto:)[^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """README with its links as seen from docs/."""
    text = (ROOT / "README.md").read_text("utf-8")
    text = _LINK.sub(lambda found: f"[{found[1]}]({_from_docs(found[2])})", text)
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page without links that leave docs/; a link to nothing stays, and fails the build. Tables name their tree."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def shown(found: re.Match[str]) -> str:
        target = (folder / found[2].partition("#")[0]).resolve()
        if not target.exists() or (target.is_relative_to(ROOT / "docs") and target.suffix != ".ipynb"):
            return found[0]
        return f"{found[1]} (`{target.relative_to(ROOT)}`)"

    return _LINK.sub(shown, _MEASURED.sub(r"*Measured by `\1` at commit `\2`:*", markdown))


def _from_docs(link: str) -> str:
    return link.removeprefix("docs/") if link.startswith("docs/") else f"../{link}"
