"""advice.md: the page of a run, from its `--json` object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .flame import Part
from .row import Row
from .table import in_short, longest_parts, tables

_HEAD: Final = """\
# The article's advice, measured

Beside its rewrite the article gives advice that costs less: look at the longest-running parts, drop needless
validation, take another JSON library, compress, store in another format. Each is a switch here, measured on what one
request of this service handles: some 3,000 items of 50 fields.

```sh
cd systems/feed
../../.venv/bin/python -m feed.advice                       # every switch: a minute or two, on a quiet machine
../../.venv/bin/python -m feed.advice --only json,formats   # some
../../.venv/bin/python -m feed.advice --flame out/flame.svg # py-spy's flame graph of the service, and its longest parts
```

**How to read it.** Each row is held against the first one of its table; the ratio says how many times less it takes, by
the time in bold. Switches are measured in turn within one process; the ratio is the median over pairs, and advice
follows from their quartiles: *worth it* and *no* where they agree that it is over 5 %. CPU counts all threads, sender
and receiver; a link is a real connection through a proxy process that hands on no faster than the link's speed. What it
does not show: other machines' speeds, a network's round trips, and latency when many requests share the loop: that is
the ladder's affair.

"""


def page(document: Mapping[str, Any]) -> str:
    """The page of a `--json` object."""
    rows = [Row(**row_fields(row)) for row in document["rows"]]
    parts = [Part(**part) for part in document.get("longest_parts", [])]
    found = document["environment"]
    where = f"{found['processor']}, {found['cores']} cores, CPython {found['python']}"
    text = (
        _HEAD
        + f"Measured on: {where}; {document['repetitions']} repetitions.\n\n"
        + "## In short\n\n"
        + in_short(rows)
        + "\n"
        + tables(rows)
    )
    if parts:
        text += (
            "\n## The longest-running parts\n\nBy py-spy, one question after the other: where most can be gained.\n\n"
            + longest_parts(document["variant"], parts)
        )
    return text


def row_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a row of `--json`: what was added for readers is left out."""
    return {name: value for name, value in row.items() if name != "advice"}
