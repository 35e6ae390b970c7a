"""The parts of a page: sections, cards, tables, tabs, figures, legends. Text is escaped; `Html` stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from greenlane_tools.page.html import Html, element, joined, shown

#: Tables longer than this get a field to search them with.
_SEARCHABLE_ROWS: Final = 15


class Card(NamedTuple):
    """One number that says something by itself."""

    name: str
    value: str
    #: What it is measured against; "" = nothing.
    aside: str = ""
    #: "", "good" or "bad".
    mood: str = ""


class Row(NamedTuple):
    """A line of a table."""

    cells: Sequence[str | int | float]
    #: "", "ours" (stands out), "late" (in the colour of failure) or "first" (begins a group); several with a space.
    style: str = ""


def section(heading: str, *body: str, about: str = "", name: str = "") -> Html:
    """A titled part of the page.

    Args:
        body: `Html`; empty parts are left out.
        about: one or two sentences below the heading.
        name: where a link can lead; "" = nowhere.
    """
    head = element("h2", heading) + (note(about) if about else "")
    return element("section", Html(head), *(part for part in body if part), id=name or None)


def paragraph(said: str, style: str = "") -> Html:
    """A paragraph; `style`: "", "lead", "note", "warning"."""
    return element("p", said, class_=style or None)


def note(said: str) -> Html:
    """A paragraph in the soft colour: how to read something, what it cannot say."""
    return paragraph(said, "note")


def code(said: str) -> Html:
    """A name, a line of code."""
    return element("code", said)


def cards(found: Iterable[Card]) -> Html:
    """Numbers beside each other."""
    parts = [
        element(
            "div",
            element("dt", card.name),
            element("dd", card.value),
            element("small", card.aside) if card.aside else "",
            class_=f"card {card.mood}".strip(),
        )
        for card in found
    ]
    return element("dl", *parts, class_="cards")


def table(heads: Sequence[str], rows: Iterable[Row], caption: str, *, names: int = 1) -> Html:
    """A table that scrolls sideways when it must; a long one can be searched.

    Args:
        caption: for screen readers, and for the search field.
        names: this many first columns are text, to the left; the rest are numbers.
    """
    rows = list(rows)
    classes = [' class="name"' if number < names else "" for number in range(len(heads))]
    head = "".join(f'<th scope="col"{kind}>{shown(said)}</th>' for said, kind in zip(heads, classes, strict=True))
    lines = []
    for row in rows:
        cells = "".join(f"<td{kind}>{shown(cell)}</td>" for cell, kind in zip(row.cells, classes, strict=True))
        lines.append(f'<tr class="{row.style}">{cells}</tr>' if row.style else f"<tr>{cells}</tr>")
    search = ""
    if len(rows) > _SEARCHABLE_ROWS:
        search = f'<input type="search" class="search" placeholder="search" aria-label="search: {shown(caption)}">'
    return Html(
        f'<div class="tabled">{search}<div class="wide"><table aria-label="{shown(caption)}"><thead><tr>{head}</tr>'
        f"</thead><tbody>{''.join(lines)}</tbody></table></div></div>"
    )


def tabs(name: str, panels: Mapping[str, str]) -> Html:
    """One of several panels at a time, the first one first; a single panel is shown without tabs. Print shows all.

    Args:
        name: of the choice; one of its own for each use on a page.
        panels: `Html` by label.
    """
    if len(panels) == 1:
        return joined(panels.values())
    choices, bodies = [], []
    for number, (said, body) in enumerate(panels.items()):
        checked, style = (" checked", "panel shown") if number == 0 else ("", "panel")
        radio = Html(f'<input type="radio" name="{shown(name)}" value="{number}"{checked}>')
        choices.append(element("label", radio, said))
        inside = (element("h3", said, class_="printed"), body)
        bodies.append(element("div", *inside, class_=style, data_of=str(number)))
    return element("div", element("div", *choices, class_="tabs", role="radiogroup"), *bodies, class_="tabbed")


def details(summary: str, *body: str) -> Html:
    """What is one click away."""
    return element("details", element("summary", summary), *body)


def figure(caption: str, drawing: str, aside: str = "") -> Html:
    """A drawing with its caption; `aside` in the soft colour behind it."""
    behind = element("span", aside) if aside else ""
    return element("figure", element("figcaption", caption, " " if aside else "", behind), drawing)


def figures(found: Iterable[str]) -> Html:
    """Figures beside each other as the width allows."""
    return element("div", *found, class_="figures")


def wide(drawing: str) -> Html:
    """A drawing that would be unreadable on a narrow screen: it scrolls sideways instead of shrinking."""
    return element("div", drawing, class_="wide drawn")


def legend(entries: Mapping[str, str]) -> Html:
    """What colours mean: name by class of the swatch."""
    return element(
        "ul",
        *(element("li", Html(f'<i class="{shown(style)}"></i>'), said) for style, said in entries.items()),
        class_="legend",
    )
