"""A profile from whatever holds one: a profile, a model, a recording or its folder."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.plan.model_file import profile_of_model
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.recorded import profile_of_recording
from greenlane_tools.plan.route import NOBODY, Route, Sequence, simulated_route
from greenlane_tools.reader.recording import SUFFIX, open_recording
from greenlane_tools.report.study import study_of
from greenlane_tools.report.verdict import Verdict

__all__ = ["keyed", "opened", "verdict_at"]

_ATTEMPT: Final = "open the source of the plan"
_PARTS: Final = ".parts"
#: A request is its upstream's if this much of its I/O is.
_MOST_FRAC: Final = 0.5
#: More kinds than this are no kinds: each address would be one.
_MOST_KINDS: Final = 64
_WAITS: Final = ("io", "held")


def opened(source: str, *, skip_s: float = 0.0) -> Profile:
    """The profile.

    Args:
        source: a profile (JSON), a model (.toml), or a recording or its folder.
        skip_s: of a recording, leave out this much of the beginning.

    Raises: PlanError, RecordingError: it is none of these, or cannot be read.
    """
    path = _path_of(source)
    if path.is_dir():
        return profile_of_recording(open_recording(path), _name(path), skip_s=skip_s)
    return _file(path, skip_s)


def verdict_at(source: str, profile: Profile) -> Verdict | None:
    """What the recording found; None = the profile is of none.

    Args:
        profile: as `opened` gave it.
    """
    path = _path_of(source)
    if profile.source != "recording" or path.suffix == ".json":
        return None
    return study_of(open_recording(path), 0).verdict


def _path_of(source: str) -> Path:
    path = Path(source)
    if not path.exists() and Path(f"{source}{_PARTS}").is_dir():
        path = Path(f"{source}{_PARTS}")  # still recorded
    if not path.exists():
        hint = "`greenlane record -o FILE -- COMMAND` makes a recording"
        raise _error(source, "a file or folder that exists", hint)
    return path


def _file(path: Path, skip_s: float) -> Profile:
    try:
        with path.open("rb") as file:
            begin = file.read(64)
        if path.suffix == ".toml":
            return profile_of_model(path.read_text("utf-8"))
        if begin.lstrip()[:1] == b"{":
            return Profile.from_json(path.read_bytes())
    except OSError as error:
        raise _error(str(path), f"a file that can be read ({error.strerror})", "look at its owner and mode") from None
    except UnicodeDecodeError:
        raise _error(str(path), "UTF-8", "write the model as UTF-8") from None
    except PlanError as error:
        raise _in_file(error, path) from None
    if path.suffix == ".json":
        raise _error(str(path), "a profile: a JSON object", "it was cut or changed: make it again")
    return profile_of_recording(open_recording(path), _name(path), skip_s=skip_s)


def _in_file(error: PlanError, path: Path) -> PlanError:
    """The same, with the file that it is in."""
    return PlanError(f"read {path}", name=error.name, value=error.value, rule=error.rule, hint=error.hint)


def _name(path: Path) -> str:
    return path.name.removesuffix(_PARTS).removesuffix(SUFFIX)


def _error(source: str, rule: str, hint: str) -> PlanError:
    return PlanError(_ATTEMPT, name="source", value=source, rule=rule, hint=hint)


def keyed(profile: Profile) -> Profile:
    """The profile with each task that calls several upstreams, one at a time, told apart by them; others as they are.

    Only of a task system: HTTP services have routes for that.
    """
    if profile.host != "celery":
        return profile
    routes = tuple(part for route in profile.routes for part in _parts(route))
    if len(routes) == len(profile.routes):
        return profile
    kept = {route.route for route in routes}
    said = "Tasks are distinguished by the upstream that they wait for most."
    return replace(
        profile,
        routes=tuple(sorted(routes, key=lambda each: (-each.rate_per_s, each.route))),
        measured={name: each for name, each in profile.measured.items() if name in kept},
        notes=(*profile.notes, said),
    )


def _parts(route: Route) -> Iterator[Route]:
    """The route, or one for each upstream, with the exact means of the whole in their sequences."""
    exact = simulated_route(route, "held", 0.0)
    by_upstream: dict[int, list[Sequence]] = {}
    for each in exact.sequences:
        by_upstream.setdefault(_upstream(each), []).append(each)
    if not 1 < len(set(by_upstream) - {NOBODY}) <= _MOST_KINDS:
        yield route
        return
    whole = math.fsum(each.weight for each in exact.sequences)
    for upstream, sequences in sorted(by_upstream.items()):
        share = math.fsum(each.weight for each in sequences) / whole
        yield replace(
            exact,
            route=route.route if upstream == NOBODY else f"{route.route} to {route.upstreams[upstream]}",
            rate_per_s=route.rate_per_s * share,
            requests=round(route.requests * share),
            sequences=tuple(sequences),
            threshold=0.0,
        )


def _upstream(sequence: Sequence) -> int:
    """The one that most of its I/O is for; `NOBODY` = none is that."""
    waited: dict[int, float] = {}
    for step in sequence.steps:
        if step.kind in _WAITS:
            waited[step.upstream] = waited.get(step.upstream, 0.0) + step.ms
    whole = math.fsum(waited.values())
    most = max(waited, key=lambda upstream: waited[upstream], default=NOBODY)
    return most if whole and waited[most] >= _MOST_FRAC * whole else NOBODY
