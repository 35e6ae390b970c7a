"""What a recording does not tell and somebody knows: lanes, deadlines, bytes, memory, limits, written into a profile.

A TOML file with the profile's own fields, routes and upstreams named as there:

    cores = 8
    [[routes]]
    route = "GET /offers"
    deadline_ms = 500
    bytes_out = 54000
    [[upstreams]]
    name = "pricing:8080"
    limit = 100
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import Final

from greenlane.errors import PlanError
from greenlane.setting import nearest
from greenlane_tools.plan.fields import Fields
from greenlane_tools.plan.profile import HOSTS, Profile, Upstream

__all__ = ["with_known"]

_ATTEMPT: Final = "add what is known"


def with_known(profile: Profile, text: str) -> Profile:
    """The profile with these fields set.

    Raises: PlanError for a field, route or upstream that there is not.
    """
    try:
        fields = Fields(tomllib.loads(text), attempted=_ATTEMPT)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(_ATTEMPT, name="known", value=text[:40], rule=f"TOML ({error})") from None
    changed = replace(
        profile,
        name=fields.text("name", profile.name),
        host=fields.text("host", profile.host, among=HOSTS),
        cores=fields.whole("cores", profile.cores, least=1),
        processes=fields.whole("processes", profile.processes, least=1),
        slots=fields.whole("slots", profile.slots or 0, least=1) or None,
        memory_mb=fields.perhaps("memory_mb") if fields.has("memory_mb") else profile.memory_mb,
    )
    for each in fields.tables("routes"):
        changed = _route(changed, each)
    for each in fields.tables("upstreams"):
        changed = _upstream(changed, each)
    fields.end()
    return changed


def _route(profile: Profile, fields: Fields) -> Profile:
    name = fields.text("route")
    names = [route.route for route in profile.routes]
    if name not in names:
        raise fields.error("route", name, "a route of the profile", nearest(name, names) or _has(names))
    deadline_ms, lane = fields.perhaps("deadline_ms", open_=True), fields.text("lane", "")
    numbers = {each: fields.perhaps(each) for each in ("bytes_in", "bytes_out", "memory_mb")}
    fields.end()
    set_ = {each: value for each, value in numbers.items() if value is not None}

    def known(each: float | None, field: str) -> float | None:
        return set_.get(field, each)

    routes = (
        replace(
            route,
            deadline_ms=deadline_ms or route.deadline_ms,
            lane=lane or route.lane,
            bytes_in=known(route.bytes_in, "bytes_in"),
            bytes_out=known(route.bytes_out, "bytes_out"),
            memory_mb=known(route.memory_mb, "memory_mb"),
        )
        if route.route == name
        else route
        for route in profile.routes
    )
    return replace(profile, routes=tuple(routes))


def _upstream(profile: Profile, fields: Fields) -> Profile:
    name, limit = fields.text("name"), fields.whole("limit", least=1)
    fields.end()
    names = [each.name for each in profile.upstreams]
    if name not in names:
        raise fields.error("name", name, "an upstream of the profile", nearest(name, names) or _has(names))
    upstreams = (Upstream(name, limit) if each.name == name else each for each in profile.upstreams)
    return replace(profile, upstreams=tuple(upstreams))


def _has(names: list[str]) -> str:
    return f"it has {', '.join(names[:5]) or 'none'}"
