"""The whole file: head, styles, what is in it, its script. Nothing is fetched; a policy in the head forbids it too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from greenlane_tools.page.html import Html, element, joined, shown

_HERE: Final = Path(__file__).parent
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def document(
    title: str,
    header: Iterable[str],
    sections: Iterable[str],
    *,
    links: Mapping[str, str] | None = None,
    script: str = "",
) -> Html:
    """The page as one text.

    Args:
        title: of the window.
        header: `Html` above the sections: heading, conclusion, cards.
        sections: `Html` of `blocks.section`; empty ones are left out.
        links: label by the name of a section, for a line of jumps below the header; None = none.
        script: of this page alone, after the common one.
    """
    jumps = ""
    if links:
        jumps = element("nav", *(_link(name, said) for name, said in links.items()), aria_label="sections")
    body = element("main", element("header", *header), jumps, *(part for part in sections if part))
    return Html(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{shown(title)}</title><style>{_text('page.css')}</style></head>"
        f"<body>{body}<script>{_text('page.js')}{script}</script></body></html>\n"
    )


def _link(name: str, said: str) -> Html:
    return joined([element("a", said, href=f"#{name}")])


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
