"""What `greenlane divert` tells of a share, of a queue's orders or of a route's requests."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from greenlane.cli.output import Output, Row
from greenlane.diverted import Diverted

__all__ = ["COLUMNS", "share_row", "tables"]

#: Of a share's row.
COLUMNS: Final = ("flow", "to", "share_frac", "set_by", "set_at", "effect_s")


def share_row(share: Diverted, effect_s: float | None) -> dict[str, object]:
    """The row of a share: what is set, by whom, and how long it took to be so; None = nothing was changed now."""
    set_at = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(share.set_s)) if share.set_s else None
    return {
        "row": "share",
        "flow": share.flow,
        "to": share.to or None,
        "share_frac": share.share_frac,
        "set_by": share.set_by or None,
        "set_at": set_at,
        "set_s": share.set_s or None,
        "effect_s": None if effect_s is None else round(effect_s, 4),
    }


def tables(rows: Sequence[Row], columns: Mapping[str, Sequence[str]], output: Output, *, json: bool) -> None:
    """Show rows: one object, or a table for each kind of row (its field "row") that there is."""
    if json:
        output.document("divert", rows)
        return
    for kind, names in columns.items():
        if of_kind := [row for row in rows if row["row"] == kind]:
            output.table(of_kind, names)
