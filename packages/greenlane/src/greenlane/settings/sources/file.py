"""Settings from `greenlane.toml`, with the line of what is refused."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane.setting import checked, known, nearest
from greenlane.settings.sources.given import LIST_THEM, Declared, Given
from greenlane.settings.sources.lane_tables import lanes_of

__all__ = ["FILE_NAME", "FILE_VARIABLE", "from_file"]

FILE_NAME: Final = "greenlane.toml"
FILE_VARIABLE: Final = "GREENLANE_CONFIG"
# Arbitrary; bounds what is read when the variable names a device or a log by mistake.
FILE_MAX_BYTES: Final = 1 << 20


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
            yield key, lanes_of(value, lane_keys, where), f"file {path}"
            continue
        attempted = where("", key)
        if isinstance(value, dict) and key not in settings:
            _refuse_table(key, attempted)
        setting = known(settings, key, value=value, attempted=attempted, hint=LIST_THEM)
        yield setting.name, checked(setting, value, attempted=attempted), f"file {path}"


def _refuse_table(key: str, attempted: str) -> None:
    hint = nearest(key, ["lanes"]) or "move its keys to the top of the file, before any table"
    raise SettingsError(f"[{key}]", key, "no table but [lanes.NAME]", hint, attempted=attempted)


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
