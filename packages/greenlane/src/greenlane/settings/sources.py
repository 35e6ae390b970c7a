"""Where settings come from: a file, then variables `GREENLANE_*`, then flags; a later one wins.

The file is `greenlane.toml`, or the table `[tool.greenlane]` of pyproject.toml.

Each source gives (name, value, origin), checked. `lanes` comes as {lane: {key: value}}, its keys checked one by one;
what is common to a lane is for `Lane` to check. Names of other distributions are passed over in a file and in the
environment.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, overload

from greenlane.errors import SettingsError
from greenlane.settings.lane import LANE_KEYS, Lane
from greenlane.settings.setting import PREFIX, Setting, checked, known, parsed
from greenlane.settings.settings import Settings, settings_of

__all__ = ["FILE_NAME", "FILE_VARIABLE", "load"]

FILE_NAME: Final = "greenlane.toml"
FILE_VARIABLE: Final = "GREENLANE_CONFIG"
_PROJECT: Final = "pyproject.toml"
_PROJECT_TABLE: Final = "tool.greenlane"
# Arbitrary; bounds what is read when the variable names a device or a log by mistake.
_FILE_MAX_BYTES: Final = 1 << 20
# Kubernetes makes these up for every service of a namespace; ours may well be called "greenlane".
_KUBERNETES: Final = re.compile(
    r"GREENLANE_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)
#: The hint where no known name is near.
_LIST_THEM: Final = "`greenlane config` lists every setting"

#: (name, value, origin), checked.
_Given = Iterable[tuple[str, object, str]]
#: Settings by name.
_Declared = Mapping[str, Setting]
#: (table, key) -> "read FILE, line N", for messages.
_Where = Callable[[str, str], str]
_Kind = TypeVar("_Kind", bound=Settings)


@overload
def load(
    flags: Mapping[str, object] | None = ..., *, environ: Mapping[str, str] = ..., file: Path | None = ...
) -> Settings: ...
@overload
def load(
    flags: Mapping[str, object] | None = ...,
    *,
    environ: Mapping[str, str] = ...,
    file: Path | None = ...,
    kind: type[_Kind],
) -> _Kind: ...
def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    file: Path | None = None,
    kind: type[Settings] = Settings,
) -> Settings:
    """The effective settings: defaults < file < environment < flags.

    Args:
        flags: setting's name -> value, typed or as text; None = not given. `lanes` takes {lane: {key: value}}.
        environ: variables; `GREENLANE_CONFIG` names the file ("" = read none).
        file: the settings file; None = as `GREENLANE_CONFIG` says, else `greenlane.toml` in the current directory if
            there is one.
        kind: whose settings: the guest's, or a subclass with those of another distribution.

    Raises:
        SettingsError: anything unknown, malformed, out of range or unreadable.

    Cost: reads at most one file of up to 1 MiB.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    sources = (
        _from_file(file, environ, settings_of(kind)),
        _from_environment(environ, settings_of(kind)),
        _from_flags(flags or {}, settings_of(kind)),
    )
    for source in sources:
        for name, value, origin in source:
            values[name] = value
            origins[name] = origin
    if "lanes" in values:
        origin = origins.pop("lanes")
        for name, keys in values["lanes"].items():
            origins.update({f"lanes.{name}.{key}": origin for key in keys})
        values["lanes"] = tuple(_lane(name, keys, origin) for name, keys in values["lanes"].items())
    return kind(**values, origins=origins)


def _lane(name: str, keys: Mapping[str, Any], origin: str) -> Lane:
    try:
        return Lane(name, **keys)
    except SettingsError as error:
        attempted = f"read the {origin}"
        raise SettingsError(error.setting, error.value, error.rule, error.hint, attempted=attempted) from None


def _from_file(file: Path | None, environ: Mapping[str, str], settings: _Declared) -> _Given:
    """`file`, else what `GREENLANE_CONFIG` names ("" = no file), else `greenlane.toml`, else pyproject.toml."""
    explicit = str(file) if file is not None else environ.get(FILE_VARIABLE)
    if explicit == "":
        return
    name = FILE_NAME if explicit is None else explicit
    text = _text(name, must_exist=explicit is not None)
    if text is None:
        name, text = _PROJECT, _project_text()
        if text is None:
            return
    path = _absolute(name)
    inside = _PROJECT_TABLE if os.path.basename(name) == _PROJECT else ""

    def where(table: str, key: str) -> str:
        from greenlane.settings.refusal import line_of

        line = line_of(text, ".".join(filter(None, (inside, table))), key)
        return f"read {path}, line {line}" if line else f"read {path}"

    found = _toml(text, path)
    if inside:
        found = found.get("tool", {}).get("greenlane", {})
    for name, value, table, key in _name_source(found, settings):
        told = functools.partial(where, table, key)
        if name == "lanes":
            yield name, _lanes_of(value, where), f"file {path}"
        elif name in settings:
            yield name, checked(settings[name], value, attempted=told), f"file {path}"
        else:
            _pass_over(name, value, settings, told(), table)


def _name_source(found: Mapping[str, Any], settings: _Declared) -> Iterable[tuple[str, Any, str, str]]:
    """(flat name, value, table, key as written)."""
    if all(key in settings or key == "lanes" for key in found):  # the usual file loads nothing more
        return ((key, value, "", key) for key, value in found.items())
    from greenlane.settings.parts import flat

    return flat(found, settings)


def _project_text() -> str | None:
    """The pyproject.toml of the current directory, where it speaks of us. What is wrong with others' is not for us."""
    try:
        text = _text(_PROJECT, must_exist=False)
    except SettingsError:
        return None
    return text if text is not None and f"[{_PROJECT_TABLE}" in text else None


def _pass_over(key: str, value: object, settings: _Declared, attempted: str, table: str) -> None:
    """Accept another distribution's name; SettingsError for any other."""
    from greenlane.settings.refusal import FOREIGN, nearest, removed, unknown

    foreign = [name for names in FOREIGN.values() for name in names]
    if key in foreign:
        return
    if isinstance(value, dict):
        hint = (
            removed(key)
            or nearest(key, ["lanes", "serve", "tasks", "record"])
            or "move its keys to the top of the file"
        )
        raise SettingsError(
            f"[{key}]", key, "no table but [serve], [tasks], [record] and [lanes.NAME]", hint, attempted=attempted
        )
    from greenlane.settings.parts import ALIASES, PARTS

    begins = PARTS.get(table, "")
    among = [name.removeprefix(begins) for name in [*settings, *foreign] if name.startswith(begins)]
    among += [] if begins else ALIASES
    raise unknown(key, value, key, among, attempted=attempted, hint=_LIST_THEM)


def _text(name: str, *, must_exist: bool) -> str | None:
    unset = f"or unset {FILE_VARIABLE}" if must_exist else "or remove it"
    try:
        with open(name, "rb") as stream:
            raw = stream.read(_FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        if not must_exist:
            return None
        raise _bad_file(name, "a file that exists", f"create it, {unset}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise _bad_file(name, f"a file that can be read ({reason})", f"make it readable, {unset}") from None
    if len(raw) > _FILE_MAX_BYTES:
        raise _bad_file(name, f"a file of at most {_FILE_MAX_BYTES} bytes", f"name the settings file, {unset}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _bad_file(name, f"UTF-8 (line {line} is not)", f"save it as UTF-8, {unset}") from None


def _toml(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        from greenlane.settings.refusal import error_place

        raise _bad_file(path, f"TOML: {error}", f"correct {error_place(text, str(error))}") from None


def _bad_file(name: str, rule: str, hint: str) -> SettingsError:
    from greenlane.settings.refusal import bad_file

    return bad_file(name, rule, hint)


def _absolute(name: str) -> str:
    try:
        return os.path.abspath(name)
    except OSError:  # the current directory is gone
        return name


def _from_environment(environ: Mapping[str, str], settings: _Declared) -> _Given:
    """Variables `GREENLANE_*`, all of which must be ours."""
    by_variable = {setting.env: setting for setting in settings.values()}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE or _KUBERNETES.fullmatch(variable):
            continue
        setting = by_variable.get(variable) or _by_alias(variable.removeprefix(PREFIX).lower(), settings)
        if setting is None:
            _pass_over_variable(variable, text, by_variable)
            continue
        value = checked(setting, parsed(setting, text), attempted=f"read the environment variable {variable}")
        yield setting.name, value, f"environment {variable}"


def _by_alias(name: str, settings: _Declared) -> Setting | None:
    from greenlane.settings.parts import ALIASES

    return settings.get(ALIASES.get(name, ""))


def _pass_over_variable(variable: str, text: str, by_variable: Iterable[str]) -> None:
    """Accept another distribution's variable; SettingsError for any other."""
    from greenlane.settings.refusal import FOREIGN, elsewhere, nearest

    foreign = [name.upper() for names in FOREIGN.values() for name in names]
    short = variable.removeprefix(PREFIX)
    from greenlane.settings.parts import ALIASES

    if short not in foreign and short.lower() not in ALIASES:
        # Compared without the prefix: sixteen common characters would make any two of them alike.
        known = [*(each.removeprefix(PREFIX) for each in by_variable), *foreign, *map(str.upper, ALIASES)]
        found = nearest(short, known)
        hint = elsewhere(short) or found.replace("'", f"'{PREFIX}", 1) or _LIST_THEM
        raise SettingsError(variable, text, "a known name", hint, attempted="read the environment")


def _from_flags(flags: Mapping[str, object], settings: _Declared) -> _Given:
    """Flags and keyword arguments: typed or as text; None = not given."""
    for name, value in flags.items():
        if value is None:
            continue
        if name == "lanes":
            yield name, _lanes_of(value, lambda table, key: "read the flags"), "flag lanes"
            continue
        setting = _by_alias(str(name), settings) if name not in settings else settings[name]
        setting = setting or known(settings, str(name), value=value, attempted="read the flags", hint=_LIST_THEM)
        attempted = f"read the flag {setting.flag}"
        typed = parsed(setting, value) if isinstance(value, str) else value
        yield setting.name, checked(setting, typed, attempted=attempted), f"flag {setting.flag}"


def _lanes_of(value: object, where: _Where) -> dict[str, dict[str, object]]:
    """Give {lane: {key: value}}, checked. Raises SettingsError where `where` says."""
    example = 'and match = ["/path*"] below it'
    if not isinstance(value, Mapping):
        hint = f"write [lanes.fast] {example}"
        raise SettingsError("lanes", value, "tables [lanes.NAME]", hint, attempted=where("", "lanes"))
    lanes: dict[str, dict[str, object]] = {}
    for name, table in value.items():
        lane = f"lanes.{name}"
        if not isinstance(table, Mapping):
            hint = f"write [{lane}] {example}"
            raise SettingsError(lane, table, "a table", hint, attempted=where("lanes", str(name)))
        lanes[str(name)] = _keys_of(lane, table, where)
    return lanes


def _keys_of(lane: str, table: Mapping[object, object], where: _Where) -> dict[str, object]:
    keys = {}
    hint = f"a lane has {', '.join(LANE_KEYS)}"
    for key, value in table.items():
        told = functools.partial(where, lane, str(key))
        setting = known(LANE_KEYS, str(key), value=value, attempted=told, hint=hint, prefix=lane + ".")
        keys[setting.name] = checked(setting, value, attempted=told, name=f"{lane}.{setting.name}")
    return keys
