"""A profile written by hand, as TOML: the fields of the JSON, and three ways to write less.

`steps` of a route stands for its one sequence; a step names its upstream by name; and instead of a time it may have a
law, from which 256 sequences are drawn:

    { mean = 16, cv = 1 }                       lognormal, by mean and coefficient of variation
    { median = 110, p99 = 400 }                 lognormal, by two percentiles
    { mean = 16, law = "exponential" }

Drawn are the middles of 256 equally likely parts of each law, in an order of its own for each step, scaled to the exact
mean: means are exact, and the same file always gives the same profile.
"""

from __future__ import annotations

import math
import random
import tomllib
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any, Final

from greenlane.errors import PlanError
from greenlane_tools.plan.fields import Fields
from greenlane_tools.plan.profile import Profile, profile_of

__all__ = ["profile_of_model"]

_ATTEMPT: Final = "read the model"
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
        raise PlanError(_ATTEMPT, name="model", value=text[:40], rule=f"TOML ({error})") from None
    routes = table.get("routes")
    if isinstance(routes, list):
        table["routes"] = [_written(each, number) for number, each in enumerate(routes)]
    return profile_of(Fields(table, attempted=_ATTEMPT))


def _written(route: object, number: int) -> object:
    """A route as JSON has it."""
    if not isinstance(route, dict):
        return route
    where = Fields({}, f"routes[{number}]", _ATTEMPT)
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
        return _law(Fields(step[1], f"{where.name}.steps", _ATTEMPT), step[1], seed)
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
