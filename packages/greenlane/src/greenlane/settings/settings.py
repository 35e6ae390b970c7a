"""The effective settings of one process: every setting as a field, the lanes, and the checks of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from greenlane.errors import SettingsError
from greenlane.setting import Setting, checked, declarations
from greenlane.settings.declared.clients import ClientSettings
from greenlane.settings.declared.deadlines import DeadlineSettings
from greenlane.settings.declared.learned import LearnedSettings
from greenlane.settings.declared.permits import PermitSettings
from greenlane.settings.declared.placement import PlacementSettings
from greenlane.settings.declared.serve import ServeSettings
from greenlane.settings.declared.tasks import TaskSettings
from greenlane.settings.declared.watching import WatchSettings
from greenlane.settings.declared.worker import WorkerSettings
from greenlane.settings.lane import APART, LANE_KEYS, Lane
from greenlane.settings.rows import described_row, effective_row

__all__ = ["SETTINGS", "Settings", "describe"]


# A dataclass takes the fields of its last base first: from the bottom it is the order of the documentation.
@dataclass(frozen=True)
class Settings(
    WatchSettings,
    TaskSettings,
    ClientSettings,
    ServeSettings,
    WorkerSettings,
    DeadlineSettings,
    LearnedSettings,
    PlacementSettings,
    PermitSettings,
):
    """The effective settings of one process. Checked however it is made: `load(...)` or `Settings(permits=2)`."""

    lanes: tuple[Lane, ...] = ()
    # Setting or lanes.NAME.KEY -> where its value came from: "file PATH", "environment NAME" or "flag NAME". Absent =
    # "default": ours, or what the code said that made the settings without `load`.
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for setting in SETTINGS.values():
            object.__setattr__(self, setting.name, checked(setting, getattr(self, setting.name)))
        if self.health_path and self.health_path == self.metrics_path:
            raise SettingsError(
                "metrics_path", self.metrics_path, "another path than health_path", "give each a path of its own"
            )
        lanes = self.lanes
        if not isinstance(lanes, Iterable) or not all(isinstance(lane, Lane) for lane in lanes):
            raise SettingsError("lanes", lanes, "Lane objects", 'make them with Lane(name, match=("/path*",))')
        object.__setattr__(self, "lanes", tuple(lanes))
        names = [lane.name for lane in self.lanes]
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(f"lanes.{name}", name, "one lane of a name", "rename one of them")

    def lane(self, route: str, path: str) -> Lane | None:
        """The first lane that matches, in the order of the file; None = no lane."""
        return next((lane for lane in self.lanes if lane.matches(route, path)), None)

    def lane_names(self) -> list[str]:
        """Of all lanes that a request may have, that of the routes apart included."""
        return list(dict.fromkeys([*(lane.name for lane in self.lanes), *([APART] if self.assigns else [])]))

    @property
    def assigns(self) -> bool:
        """Whether routes go to lane `apart` live: asked for, or because nobody has said who goes first."""
        return self.auto_lane or (self.auto_last and not self.lanes and not self.at_once)

    def effective(self) -> list[dict[str, object]]:
        """One row a setting: `setting`, `value`, `unit`, `origin`; lanes as `lanes.NAME.KEY`."""
        rows = []
        for setting in SETTINGS.values():
            rows.append(effective_row(setting.name, getattr(self, setting.name), setting, self.origins))
        for lane in self.lanes:
            for key in LANE_KEYS.values():
                rows.append(effective_row(f"lanes.{lane.name}.{key.name}", getattr(lane, key.name), key, self.origins))
        return rows


# By name, in the order of the documentation.
SETTINGS: Final[Mapping[str, Setting]] = declarations(Settings)


def describe() -> list[dict[str, object]]:
    """One row a setting, for documentation.

    Keys: `setting`, `kind`, `default`, `unit`, `rule`, `what`, `reason`, `environment`, `flag`. Lane keys follow as
    `lanes.NAME.KEY`; they have neither environment name nor flag.
    """
    rows = [described_row(setting.name, setting, setting.env, setting.flag) for setting in SETTINGS.values()]
    return rows + [described_row(f"lanes.NAME.{key.name}", key, "", "") for key in LANE_KEYS.values()]
