"""The settings of all distributions beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from greenlane.errors import SettingsError
from greenlane.settings import LANE_KEYS, Setting, Settings, load, settings_of
from greenlane.settings.listing import by_distribution, describe, installed
from greenlane.settings.refusal import FOREIGN, REMOVED

EVERY = settings_of(installed())


def test_the_names_that_a_process_passes_over_are_those_that_the_others_declare() -> None:
    kinds = dict(by_distribution())
    assert kinds.pop("greenlane") is Settings
    guest = settings_of(Settings)
    declared = {name: tuple(each for each in settings_of(kind) if each not in guest) for name, kind in kinds.items()}
    assert declared == FOREIGN


def test_no_two_distributions_declare_one_name() -> None:
    names = [name for names in FOREIGN.values() for name in names]
    assert len({*names, *settings_of(Settings)}) == len(names) + len(settings_of(Settings))


def test_one_environment_serves_all() -> None:
    environ = {"GREENLANE_CONFIG": "", "GREENLANE_WORKERS": "3", "GREENLANE_TASK_SLOTS": "7", "GREENLANE_PERMITS": "2"}
    kinds = by_distribution()
    assert load(environ=environ).permits == 2
    for name, own in (("greenlane-serve", "workers"), ("greenlane-work", "task_slots")):
        loaded = load(environ=environ, kind=kinds[name])
        assert loaded.permits == 2
        assert loaded.origins[own].startswith("environment ")
    together = load(environ=environ, kind=installed())
    assert [getattr(together, name) for name in ("permits", "workers", "task_slots")] == [2, 3, 7]


def test_describe_has_a_row_for_every_setting() -> None:
    rows = [str(row["setting"]) for row in describe()]
    assert sorted(rows) == sorted([*EVERY, *(f"lanes.NAME.{key}" for key in LANE_KEYS)])


@pytest.mark.parametrize("name", sorted({name for names in FOREIGN.values() for name in names}))
def test_every_setting_says_what_it_is_and_why_its_default(name: str) -> None:
    setting: Setting = EVERY[name]
    assert setting.what.endswith(".") and setting.reason.endswith(".")
    if setting.kind in ("int", "float"):
        assert isinstance(setting.default, int | float)
        assert setting.low is not None and setting.high is not None
        assert setting.low <= setting.default <= setting.high
    suffix = name.rsplit("_", 1)[-1]
    assert (suffix if suffix in ("ms", "s", "frac") and not name.endswith("_per_s") else "") in ("", setting.unit)


@pytest.mark.parametrize("name", REMOVED)
def test_a_setting_of_before_is_refused_by_name_with_what_to_do(name: str, tmp_path: Path) -> None:
    assert name not in EVERY
    path = tmp_path / "greenlane.toml"
    part = name.removeprefix("task_")
    for text in (f"{name} = 1", f"[tasks]\n{part} = 1" if part != name else f"{name} = 1"):
        path.write_text(text)
        with pytest.raises(SettingsError) as refused:
            load(file=path, environ={}, kind=installed())
        assert (refused.value.setting, refused.value.hint) == (name, REMOVED[name])
    variable = f"GREENLANE_{name.upper()}"
    with pytest.raises(SettingsError) as refused:
        load(environ={"GREENLANE_CONFIG": "", variable: "1"})
    assert (refused.value.setting, refused.value.hint) == (variable, REMOVED[name])
    with pytest.raises(SettingsError) as refused:
        load({name: "1"}, environ={"GREENLANE_CONFIG": ""})
    assert refused.value.hint == REMOVED[name]
