"""A profile from whatever holds one: a profile, a model, a recording or its folder."""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

from greenlane.errors import PlanError
from greenlane_tools.plan.fields import Fields
from greenlane_tools.plan.profile import Profile, profile_of
from greenlane_tools.plan.recorded import profile_of_recording
from greenlane_tools.plan.route import NOBODY, Route, Sequence, simulated_route
from greenlane_tools.reader.recording import SUFFIX, open_recording
from greenlane_tools.report.study import study_of
from greenlane_tools.report.verdict import Verdict

# --- A profile written by hand, as TOML: the fields of the JSON, and three ways to write less.


_READ_MODEL: Final = "read the model"
#: Sequences that a law is drawn as.
_MOST: Final = 256
_NORMAL: Final = NormalDist()
_Z99: Final = _NORMAL.inv_cdf(0.99)
_RULE: Final = 'ms, or { mean, cv }, { median, p99 } or { mean, law = "exponential" }'
_PLACES: Final = ("cpu", "free", "io", "held")


def profile_of_model(text: str) -> Profile:
    """The profile.

    Raises: PlanError for what TOML cannot read, for unknown fields and for what contradicts itself.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(_READ_MODEL, name="model", value=text[:40], rule=f"TOML ({error})") from None
    routes = table.get("routes")
    if isinstance(routes, list):
        table["routes"] = [_written(each, number) for number, each in enumerate(routes)]
    return profile_of(Fields(table, attempted=_READ_MODEL))


def _written(route: object, number: int) -> object:
    """A route as JSON has it."""
    if not isinstance(route, dict):
        return route
    where = Fields({}, f"routes[{number}]", _READ_MODEL)
    found = dict(route)
    if "steps" in found:
        if "sequences" in found:
            raise where.error("steps", found["steps"], "steps or sequences, not both", "put it into the sequences")
        found["sequences"] = [{"steps": found.pop("steps")}]
    names = list(found["upstreams"]) if isinstance(found.get("upstreams"), list) else []
    if isinstance(found.get("sequences"), list):
        found["sequences"] = [
            drawn
            for place, each in enumerate(found["sequences"])
            for drawn in _drawn(each, names, f"{found.get('route')} {place}", where)
        ]
    if names:
        found["upstreams"] = names
    return found


def _drawn(sequence: object, names: list[str], seed: str, where: Fields) -> list[object]:
    """A sequence, or the many that its laws stand for. Adds the upstreams' names."""
    if not isinstance(sequence, dict) or not isinstance(sequence.get("steps"), list):
        return [sequence]
    steps = [_numbered(step, names) for step in sequence["steps"]]
    times = [_times(step, f"{seed} {place}", where) for place, step in enumerate(steps)]
    if not any(len(each) > 1 for each in times):
        return [{**sequence, "steps": steps}]
    weight = sequence.get("weight", 1.0)
    share = weight / _MOST if isinstance(weight, int | float) and not isinstance(weight, bool) else weight
    return [
        {
            **sequence,
            "weight": share,
            "steps": [
                [step[0], round(each[draw % len(each)], 5), *step[2:]] if each else step
                for step, each in zip(steps, times, strict=True)
            ],
        }
        for draw in range(_MOST)
    ]


def _numbered(step: object, names: list[str]) -> Any:
    """The step with its upstream's index."""
    if not isinstance(step, list) or len(step) != 3 or not isinstance(step[2], str):
        return step
    if step[2] not in names:
        names.append(step[2])
    return [step[0], step[1], names.index(step[2])]


def _times(step: Any, seed: str, where: Fields) -> list[float]:
    """One time, or those of its law; none where the step is not one, which is reported later."""
    if not isinstance(step, list) or len(step) < 2 or step[0] not in _PLACES:
        return []
    if isinstance(step[1], dict):
        return _law(Fields(step[1], f"{where.name}.steps", _READ_MODEL), step[1], seed)
    return [float(step[1])] if isinstance(step[1], int | float) and not isinstance(step[1], bool) else []


def _law(fields: Fields, table: Mapping[str, object], seed: str) -> list[float]:
    parts = [(number + 0.5) / _MOST for number in range(_MOST)]
    if fields.has("median"):
        median, p99 = fields.number("median", open_=True), fields.number("p99", open_=True)
        fields.end()
        if p99 < median:
            raise fields.error("p99", p99, f"at least the median, {median:g}")
        sigma = math.log(p99 / median) / _Z99
        mean, drawn = median * math.exp(sigma**2 / 2), [math.exp(sigma * _NORMAL.inv_cdf(part)) for part in parts]
    elif fields.has("mean"):
        mean = fields.number("mean", open_=True)
        law = fields.text("law", "lognormal", among=("lognormal", "exponential"))
        cv = fields.number("cv", 1.0, most=20.0)
        fields.end()
        if law == "exponential":
            drawn = [-math.log(1 - part) for part in parts]
        else:
            sigma = math.sqrt(math.log(1 + cv**2))
            drawn = [math.exp(sigma * _NORMAL.inv_cdf(part)) for part in parts]
    else:
        raise fields.error("", dict(table), _RULE)
    scale = mean * len(drawn) / math.fsum(drawn)
    found = [each * scale for each in drawn]
    random.Random(seed).shuffle(found)
    return found


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
