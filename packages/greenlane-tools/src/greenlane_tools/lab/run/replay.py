"""Recorded arrivals of a class: of a recording's route, or of a table's column."""

from __future__ import annotations

from greenlane_tools.lab.load.plan import Recorded
from greenlane_tools.lab.load.recorded import recorded, recorded_column, recorded_routes
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["replayed"]

_TABLES = (".parquet", ".csv")


def replayed(scenario: Scenario, one: RequestClass) -> Recorded:
    """The instants of its file.

    Raises:
        RecordingError, SettingsError: the file cannot be read, or has no such route or column.
    """
    path, route = scenario.folder / one.recorded, one.recorded_route
    if path.suffix in _TABLES:
        where = ("endpoint", route) if route else None
        return recorded_column(path, one.recorded_column, unit=one.recorded_unit, where=where)  # type: ignore[arg-type]
    if route:
        return recorded(path, route)
    return Recorded(tuple(sorted(at_ns for found in recorded_routes(path).values() for at_ns in found.at_ns)))
