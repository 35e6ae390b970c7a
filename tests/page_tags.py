"""A page as its tags: what is opened is closed, and nothing is fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Tags(HTMLParser):
    """Collects tags and attributes, and checks that what is opened is closed."""

    void = frozenset({"meta", "input", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(text: str) -> Tags:
    """The page's tags; all of them closed."""
    found = Tags()
    found.feed(text)
    assert not found.open
    return found


def what_it_fetches(text: str) -> list[str]:
    """What would leave the file: attributes that load, elements that load, addresses in styles and scripts."""
    found = tags(text).seen
    loads = [
        f"{tag} {name}={attributes[name]}"
        for tag, attributes in found
        for name in ("src", "href", "srcset", "action")
        if name in attributes and not str(attributes[name]).startswith("#")
    ]
    loads += [tag for tag, _ in found if tag in ("link", "img", "iframe", "object", "embed", "form")]
    code = "".join(re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", text, re.DOTALL))
    return loads + re.findall(r"https?://|@import|url\(|fetch\(|XMLHttpRequest|WebSocket", code)
