"""Arrivals as they once were, for exact replay: of a recording's routes, a table's column, or another program's log.

All of one source share one origin, its earliest arrival of any kind: streams that are replayed together keep their
places towards each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from greenlane.errors import SettingsError
from greenlane_tools.lab.load.log_file import is_locust, logged
from greenlane_tools.lab.load.plan import Recorded
from greenlane_tools.lab.load.request_log import (
    ATTEMPTED,
    SECOND_NS,
    at_ns_of,
    chosen,
    moment_of,
    spread,
)
from greenlane_tools.reader.recording import open_recording

if TYPE_CHECKING:
    import pyarrow

_NS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
#: How a recording begins.
_MAGIC: Final = b"\x89GLR"
_TABLES: Final = (".parquet", ".csv")
_WHOLE: Final = "its times are whole seconds: the rows of a second are spread evenly over it"


def form_of(path: Path) -> Literal["recording", "table", "log"]:
    """Which of the functions here reads a file."""
    if path.is_dir() or path.suffix == ".glr":
        return "recording"
    with path.open("rb") as file:
        head = file.read(1 << 12)
    if head.startswith(_MAGIC):
        return "recording"
    is_table = Path(path.name.removesuffix(".gz")).suffix in _TABLES
    return "table" if is_table and not is_locust(head) else "log"


def recorded_routes(path: Path | str) -> dict[str, Recorded]:
    """Arrivals of each route of a recording, most frequent first; jobs that never ended arrived, too.

    Raises:
        RecordingError: there is no recording, or nothing of it can be read.
    """
    recording = open_recording(path)
    # By process and job: one that its server aborted stands in both lists.
    arrived = {(job.process, job.job): (job.route, job.arrival_ns) for job in recording.jobs}
    arrived |= {(job.process, job.job): (job.route, job.arrival_ns) for job in recording.unfinished}
    found: dict[str, list[int]] = defaultdict(list)
    for route, at_ns in arrived.values():
        found[route].append(at_ns)
    origin_ns = min((min(times) for times in found.values()), default=0)
    by_count = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return {route: Recorded(tuple(at_ns - origin_ns for at_ns in sorted(times))) for route, times in by_count}


def recorded(path: Path | str, route: str) -> Recorded:
    """Arrivals of one route of a recording, ns from the recording's first arrival of any route.

    Raises:
        RecordingError: there is no recording, or nothing of it can be read.
        SettingsError: it has no job of that route.
    """
    routes = recorded_routes(path)
    if route not in routes:
        raise _unknown("route", route, list(routes))
    return routes[route]


def recorded_column(
    path: Path | str,
    column: str,
    *,
    unit: Literal["ns", "us", "ms", "s"] = "ns",
    where: tuple[str, str] | None = None,
) -> Recorded:
    """Arrivals of a Parquet or CSV table, ns from its earliest one.

    Args:
        path: by its ending `.parquet`, else CSV with a header line.
        column: numbers in `unit`, or times (they have their own unit; nginx' form is known).
        unit: what 1 means in a column of numbers.
        where: (column, value): only rows with that value, such as ("endpoint", "/quote") of the lab's own samples.

    Raises:
        SettingsError: no such file, column, or value; an empty cell; no table.
    """
    table = _table(Path(path))
    cells = _named(table, column)
    times_ns = _times_ns(cells, column, unit)
    are_whole = _are_seconds(cells, unit) and not (times_ns % SECOND_NS).any()
    times_ns = spread(times_ns) if are_whole else times_ns
    if where is not None:
        name, value = where
        cells = _named(table, name).cast("string").to_numpy(zero_copy_only=False)
        if value not in cells:
            raise _unknown(name, value, sorted({str(cell) for cell in cells}))
        kept = times_ns[cells == value]
    else:
        kept = times_ns
    at_ns = tuple(np.sort(kept - times_ns.min()).tolist()) if len(times_ns) else ()
    return Recorded(at_ns, (_WHOLE,) if are_whole else ())


def recorded_requests(path: Path | str, *, route: str = "", log_format: str = "") -> Recorded:
    """Arrivals of requests that another program has logged, ns from the earliest one of the file.

    Args:
        path: an access log of nginx or Apache, HAR, JSON of k6, or locust's stats_history.csv; also with `.gz`.
        route: `GET /path`, `/path` or a URL, without the query; `*` stands for anything; "" = all.
        log_format: nginx' `log_format` or Apache's `LogFormat`; "" = one of those that are common.

    Raises:
        SettingsError: it cannot be read, is of no such form, or has no request of that route.
    """
    found = logged(Path(path), log_format)
    mask = chosen(found, route) if route else np.ones(len(found.routes), np.bool_)
    if not mask.any():
        raise _unknown("route", route, [name for name, _ in Counter(found.routes).most_common()])
    return Recorded(tuple(np.sort(found.at_ns[mask] - found.at_ns.min()).tolist()), found.notes)


def _are_seconds(cells: pyarrow.ChunkedArray, unit: str) -> bool:
    """Whether its cells may say no more than a second."""
    import pyarrow

    kind = cells.type
    is_count, is_text = pyarrow.types.is_integer(kind) and unit == "s", pyarrow.types.is_string(kind)
    return is_count or is_text or (pyarrow.types.is_timestamp(kind) and kind.unit == "s")


def _table(path: Path) -> pyarrow.Table:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
    except (OSError, pyarrow.ArrowInvalid) as error:
        rule = f"a table in Parquet or CSV ({str(error).splitlines()[0]})"
        raise SettingsError("path", str(path), rule, "name another file", attempted=ATTEMPTED) from None


def _named(table: pyarrow.Table, column: str) -> pyarrow.ChunkedArray:
    if column not in table.column_names:
        raise _unknown("column", column, table.column_names)
    return table[column]


def _times_ns(cells: pyarrow.ChunkedArray, column: str, unit: str) -> NDArray[np.int64]:
    import pyarrow

    hint = "name the column that holds the arrivals"
    if cells.null_count:
        raise SettingsError("column", column, "a time in every row", "remove the empty rows", attempted=ATTEMPTED)
    if pyarrow.types.is_timestamp(cells.type):
        return np.asarray(cells.to_numpy().astype("datetime64[ns]").astype(np.int64))
    if pyarrow.types.is_integer(cells.type):
        return np.asarray(cells.to_numpy().astype(np.int64) * _NS[unit])
    if pyarrow.types.is_floating(cells.type) and np.isfinite(seconds := cells.to_numpy()).all():
        return np.asarray(np.round(seconds * _NS[unit]).astype(np.int64))
    if pyarrow.types.is_string(cells.type):
        with suppress(ValueError):
            return np.array([at_ns_of(moment_of(cell)) for cell in cells.to_pylist()], np.int64)
    raise SettingsError("column", column, f"numbers or timestamps (it has {cells.type})", hint, attempted=ATTEMPTED)


def _unknown(name: str, value: str, known: Sequence[str]) -> SettingsError:
    shown = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
    return SettingsError(name, value, f"one of {shown or 'none'}", "correct it", attempted=ATTEMPTED)
