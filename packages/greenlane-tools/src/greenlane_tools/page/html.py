"""HTML as a type: what is not `Html` is text and gets escaped, so no name in a recording can become markup."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape


class Html(str):
    """Text that is HTML already. Formatting gives a plain `str` again, which would be escaped: wrap results again."""

    __slots__ = ()


Content = str | int | float


def shown(content: Content) -> str:
    """The HTML of a piece of content: `Html` as it is, anything else escaped; control characters are written out."""
    if isinstance(content, Html):
        return content
    text = str(content)
    if not text.isprintable():
        text = "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
    return escape(text)


def element(name: str, *content: Content, **attributes: Content | None) -> Html:
    """An element with its end tag. `class_` gives `class`, `aria_label` gives `aria-label`; None leaves one out."""
    return Html(f"<{name}{_attributes(attributes)}>{''.join(map(shown, content))}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Pieces behind each other; plain text among them is escaped."""
    return Html("".join(map(shown, parts)))


def json_script(identifier: str, value: object) -> Html:
    """Values for a page's own script. `<` is written as an escape: nothing inside can end the element."""
    text = json.dumps(value, separators=(",", ":"), default=str).replace("<", "\\u003c")
    return Html(f'<script type="application/json" id="{escape(identifier)}">{text}</script>')


def _attributes(attributes: dict[str, Content | None]) -> str:
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{shown(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
