"""Scenarios by name: those that ship in the wheel, and those of the checkout."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from greenlane.errors import ArgumentError
from greenlane.settings.refusal import nearest
from greenlane_tools.lab.scenario.scenario import Scenario

__all__ = ["ATTEMPTED", "adapted", "found", "known", "missing", "questions"]


ATTEMPTED: Final = "run a scenario"
_PACKAGE: Final = Path(__file__).resolve().parents[2]
_CHECKOUT: Final = _PACKAGE.parents[3] / "lab" / "scenarios"
SUFFIX: Final = ".toml"
#: Said where only those of the package are found.
NO_CHECKOUT: Final = "other scenarios are in a checkout of Greenlane (lab/scenarios): run them there, or give a file"


def folders() -> list[Path]:
    """Where they are looked for: in the package, then in the checkout that it lies in, if it does."""
    return [_PACKAGE / "demo", *([_CHECKOUT] if _CHECKOUT.is_dir() else [])]


def known() -> dict[str, Path]:
    """All that have a name, by it."""
    return {path.stem: path for folder in folders() for path in sorted(folder.glob(f"*{SUFFIX}"))}


def found(named: str) -> Path:
    """The file of a scenario: a name that is known, or a path.

    Raises:
        SettingsError: there is none.
    """
    path = Path(named)
    if path.suffix == SUFFIX or "/" in named:
        if path.is_file():
            return path
        raise ArgumentError("FILE", named, "a scenario file that exists", "greenlane lab run --list names those that "
                            "are here", attempted=ATTEMPTED)  # fmt: skip
    there = known()
    if named not in there:
        own = "greenlane lab run --list names them; a file of your own ends in .toml"
        hint = nearest(named, there) or (own if _CHECKOUT.is_dir() else NO_CHECKOUT)
        raise ArgumentError("NAME", named, f"one of {', '.join(sorted(there))}", hint, attempted=ATTEMPTED)
    return there[named]


def missing() -> str:
    """What is to be said of scenarios that an installed package lacks; "" = in a checkout nothing is lacking."""
    return "" if _CHECKOUT.is_dir() else NO_CHECKOUT


def questions() -> Iterator[tuple[str, str, Path]]:
    """(name, question, file) of those that are known; a file that cannot be read has its fault for a question."""
    for name, path in sorted(known().items()):
        try:
            asked = str(tomllib.loads(path.read_text("utf-8")).get("question", ""))
        except (OSError, ValueError) as error:
            asked = f"cannot be read: {error}"
        yield name, asked, path


# --- A scenario with other numbers than its file: what flags of a command change.


def adapted(
    scenario: Scenario,
    *,
    seconds: float | None = None,
    repetitions: int | None = None,
    seed: int | None = None,
    utilisations_frac: tuple[float, ...] | None = None,
) -> Scenario:
    """The scenario with these instead; None = as the file says.

    Args:
        seconds: load per cell, over all repetitions. Phases are stretched alike, and the times of faults with them;
            how long a fault lasts stays.
    """
    if repetitions is not None:
        scenario = replace(scenario, repetitions=repetitions)
    if seed is not None:
        scenario = replace(scenario, seed=seed)
    if utilisations_frac is not None:
        scenario = replace(scenario, utilisations_frac=utilisations_frac)
    if seconds is None:
        return scenario
    factor = seconds / scenario.repetitions / scenario.run_seconds()
    return replace(
        scenario,
        seconds=seconds,
        phases=tuple(replace(one, seconds=one.seconds * factor) for one in scenario.phases),
        faults=tuple(replace(one, at_s=one.at_s * factor) for one in scenario.faults),
    )
