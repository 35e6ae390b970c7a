"""Where settings come from: the file, the environment, flags. Each gives `(name, value, origin)`, checked.

`lanes` comes as {lane: {key: value}}, its keys checked one by one. What is common to a lane is for `Lane` to check.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane.setting import PREFIX, Setting, checked, known, nearest, parsed

__all__ = ["FILE_NAME", "FILE_VARIABLE", "from_environment", "from_file", "from_flags"]

FILE_NAME: Final = "greenlane.toml"
FILE_VARIABLE: Final = "GREENLANE_CONFIG"
# Arbitrary; bounds what is read when the variable names a device or a log by mistake.
FILE_MAX_BYTES: Final = 1 << 20

# Kubernetes makes these up for every service of a namespace; ours may well be called "greenlane".
_KUBERNETES: Final = re.compile(
    r"GREENLANE_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)

Given = Iterable[tuple[str, object, str]]
Declared = Mapping[str, Setting]
# (table, key) -> "read FILE, line N", for messages.
Where = Callable[[str, str], str]

_LIST_THEM: Final = "`greenlane config` lists every setting"


def from_flags(flags: Mapping[str, object], settings: Declared, lane_keys: Declared) -> Given:
    """Flags and keyword arguments: typed or as text; None = not given."""
    for name, value in flags.items():
        if value is None:
            continue
        if name == "lanes":
            yield name, _lanes(value, lane_keys, lambda table, key: "read the flags"), "flag lanes"
            continue
        setting = known(settings, str(name), value=value, attempted="read the flags", hint=_LIST_THEM)
        attempted = f"read the flag {setting.flag}"
        typed = parsed(setting, value) if isinstance(value, str) else value
        yield setting.name, checked(setting, typed, attempted=attempted), f"flag {setting.flag}"


def from_environment(environ: Mapping[str, str], settings: Declared) -> Given:
    """Variables `GREENLANE_*`, all of which must be ours."""
    by_variable = {setting.env: setting for setting in settings.values()}
    short = [setting.env.removeprefix(PREFIX) for setting in settings.values()]
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE or _KUBERNETES.fullmatch(variable):
            continue
        if variable not in by_variable:
            # Compared without the prefix: sixteen common characters would make any two of them alike.
            hint = nearest(variable.removeprefix(PREFIX), short).replace("'", f"'{PREFIX}", 1) or _LIST_THEM
            raise SettingsError(variable, text, "a known name", hint, attempted="read the environment")
        setting = by_variable[variable]
        value = checked(setting, parsed(setting, text), attempted=f"read the environment variable {variable}")
        yield setting.name, value, f"environment {variable}"


def from_file(file: Path | None, environ: Mapping[str, str], settings: Declared, lane_keys: Declared) -> Given:
    """`file`, else what `GREENLANE_CONFIG` names ("" = no file), else `greenlane.toml` where there is one."""
    explicit = str(file) if file is not None else environ.get(FILE_VARIABLE)
    if explicit == "":
        return
    name = FILE_NAME if explicit is None else explicit
    text = _text(name, must_exist=explicit is not None)
    if text is None:
        return
    path = _absolute(name)

    def where(table: str, key: str) -> str:
        line = _line_of(text, table, key)
        return f"read {path}, line {line}" if line else f"read {path}"

    for key, value in _toml(text, path).items():
        if key == "lanes":
            yield key, _lanes(value, lane_keys, where), f"file {path}"
            continue
        attempted = where("", key)
        if isinstance(value, dict) and key not in settings:
            _refuse_table(key, attempted)
        setting = known(settings, key, value=value, attempted=attempted, hint=_LIST_THEM)
        yield setting.name, checked(setting, value, attempted=attempted), f"file {path}"


def _refuse_table(key: str, attempted: str) -> None:
    hint = nearest(key, ["lanes"]) or "move its keys to the top of the file, before any table"
    raise SettingsError(f"[{key}]", key, "no table but [lanes.NAME]", hint, attempted=attempted)


def _lanes(value: object, lane_keys: Declared, where: Where) -> dict[str, dict[str, object]]:
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
        lanes[str(name)] = _lane(lane, table, lane_keys, where)
    return lanes


def _lane(lane: str, table: Mapping[object, object], lane_keys: Declared, where: Where) -> dict[str, object]:
    keys = {}
    hint = f"a lane has {', '.join(lane_keys)}"
    for key, value in table.items():
        attempted = where(lane, str(key))
        setting = known(lane_keys, str(key), value=value, attempted=attempted, hint=hint, prefix=lane + ".")
        keys[setting.name] = checked(setting, value, attempted=attempted, name=f"{lane}.{setting.name}")
    return keys


def _text(name: str, *, must_exist: bool) -> str | None:
    unset = f"or unset {FILE_VARIABLE}" if must_exist else "or remove it"
    try:
        with open(name, "rb") as stream:
            raw = stream.read(FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        if not must_exist:
            return None
        raise _bad_file(name, "a file that exists", f"create it, {unset}") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise _bad_file(name, f"a file that can be read ({reason})", f"make it readable, {unset}") from None
    if len(raw) > FILE_MAX_BYTES:
        raise _bad_file(name, f"a file of at most {FILE_MAX_BYTES} bytes", f"name the settings file, {unset}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _bad_file(name, f"UTF-8 (line {line} is not)", f"save it as UTF-8, {unset}") from None


def _toml(text: str, path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise _bad_file(path, f"TOML: {error}", f"correct {_error_place(text, str(error))}") from None


def _error_place(text: str, message: str) -> str:
    found = re.search(r"line (\d+)", message)
    if found:
        return f"line {found[1]}"
    return f"line {len(text.splitlines())}, the last one" if "end of document" in message else "the file"


def _bad_file(name: str, rule: str, hint: str) -> SettingsError:
    return SettingsError("file", name, rule, hint, attempted="read the settings file")


def _line_of(text: str, table: str, key: str) -> int:
    """The line of a key in a table ("" = before all tables); 0 = written in some way that is not looked for."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        head = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line)
        if head:
            current = re.sub(r"[\"'\s]", "", head[1])
            if f"{current}.".startswith(f"{table}.{key}." if table else f"{key}."):
                return number
        elif current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return 0


def _absolute(name: str) -> str:
    try:
        return os.path.abspath(name)
    except OSError:  # the current directory is gone
        return name
