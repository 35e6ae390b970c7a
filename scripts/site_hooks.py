"""Hooks of mkdocs: README is the first page, links that leave docs/ become plain paths, and recordings are shown."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
_MEASURED = re.compile(r"<!-- measured: (.+?); tree: (\w+); of: .+? -->")
#: A paragraph with a link to a recorded run.
_RECORDED = re.compile(r"^(?:(?!\n\n).)*?\]\(recordings/\w+\.txt\)(?:(?!\n\n).)*(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)
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

    markdown = _LINK.sub(shown, _MEASURED.sub(r"*Measured by `\1` at commit `\2`:*", markdown))
    return _RECORDED.sub(_with_recording, markdown)


def _with_recording(paragraph: re.Match[str]) -> str:
    """The paragraph, and below it each recording that it links to."""
    files = re.findall(r"\]\((recordings/\w+\.txt)\)", paragraph[0])
    blocks = [f"```text\n{(ROOT / 'docs' / file).read_text('utf-8')}```\n" for file in files]
    return "\n\n".join([paragraph[0].rstrip("\n"), *blocks, ""])


def _from_docs(link: str) -> str:
    return link.removeprefix("docs/") if link.startswith("docs/") else f"../{link}"
