"""Who made whom wait: the map, and every row with its slices."""

from __future__ import annotations

from greenlane_tools.page.blocks import Row, details, paragraph, section, table, wide
from greenlane_tools.page.charts.heat_map import heat_map
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import count, duration, share
from greenlane_tools.report.study import Study
from greenlane_tools.report.views.limits import shortened

__all__ = ["view"]

_SIDE = 10


def view(study: Study) -> Html:
    """The section."""
    if not study.matrix.whole_ns:
        return Html("")
    drawn = study.matrix.cut(_SIDE)
    found, more = shortened(sorted(study.recording.blame, key=lambda row: -row.ns))
    rows = [
        Row(
            [
                row.victim,
                row.culprit + (f", phase {row.phase}" if row.phase >= 0 else ""),
                study.places[row.culprit].place if row.culprit in study.places else "-",
                row.kind,
                duration(row.ns),
                share(row.ns / max(1, study.matrix.by_victim[row.victim])),
                count(row.waits),
                count(row.slices),
                duration(row.longest_ns),
            ]
        )
        for row in found
    ]
    heads = ["who waited", "for whom", "where", "wait", "time", "of its wait", "waits", "slices", "longest slice"]
    return section(
        "Who made whom wait",
        wide(heat_map(drawn.victims, drawn.culprits, drawn.cells, "waiting by victim (rows) and culprit (columns)")),
        _uncut(study),
        details("All rows", table(heads, rows, "blame", names=3), more),
        about="Rows waited, columns ran meanwhile. A cell is the time that all jobs of the row together waited for the "
        "column.",
        name="blame",
    )


def _uncut(study: Study) -> Html:
    found = study.uncut
    if not found.gil_wait_ns:
        return Html("")
    part = f"about {share(found.frac)}" if found.uncut_ns else "nothing"
    return paragraph(
        f"Waiting for the GIL: {duration(found.gil_wait_ns)}. In the {count(found.jobs)} jobs that waited most for it, "
        f"{part} was for slices that the interpreter could not cut (over twice its switch interval of "
        f"{duration(found.interval_ns)}): C calls that hold the GIL. Permits and intervals do not shorten those; "
        "placing them elsewhere does.",
        "note",
    )
