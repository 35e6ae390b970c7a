"""What of an SQL statement is told: its verb and its first table. Values never are.

A table is looked for only in front of the first literal, so that words inside of one cannot be taken for it.
"""

from __future__ import annotations

import functools
import re
from typing import Any, Final

from greenlane.probes.calls.naming import operation

__all__ = ["named", "text_of"]

#: A statement's head: longer ones name their table in it, or do without.
_HEAD: Final = 2048
_REMEMBERED: Final = 512

_COMMENT: Final = re.compile(r"\s*(?:/\*.*?\*/|--[^\n]*(?:\n|$)|\()\s*", re.DOTALL)
_VERB: Final = re.compile(r"\s*([A-Za-z]{1,16})\b")
#: A literal begins: a quote, a dollar quote (not a parameter $1), a number sign (a comment of MySQL).
_LITERAL: Final = re.compile(r"'|\$(?!\d)|#|--|/\*")
_NAME: Final = r'((?:[A-Za-z_]\w{0,62}|"[A-Za-z_]\w{0,62}"|`[A-Za-z_]\w{0,62}`|\.){1,5})'
_AFTER: Final = {
    "SELECT": re.compile(rf"\bFROM\s+(?:ONLY\s+)?{_NAME}", re.IGNORECASE),
    "DELETE": re.compile(rf"\bFROM\s+(?:ONLY\s+)?{_NAME}", re.IGNORECASE),
    "INSERT": re.compile(rf"\bINTO\s+{_NAME}", re.IGNORECASE),
    "REPLACE": re.compile(rf"\bINTO\s+{_NAME}", re.IGNORECASE),
    "MERGE": re.compile(rf"\bINTO\s+{_NAME}", re.IGNORECASE),
    "UPDATE": re.compile(rf"\bUPDATE\s+(?:ONLY\s+)?{_NAME}", re.IGNORECASE),
    "COPY": re.compile(rf"\bCOPY\s+{_NAME}", re.IGNORECASE),
}


def named(statement: Any, *, quotes_are_names: bool = True) -> str:
    """Name a statement: `SELECT bikes`.

    Args:
        statement: text, bytes, or what psycopg composes.
        quotes_are_names: `"..."` encloses a name (the standard); False for MySQL, where it encloses a value.
    """
    return _named(text_of(statement)[:_HEAD], quotes_are_names)


def text_of(statement: Any) -> str:
    """Give the text of a statement; of a composed one, its parts that are no values."""
    if isinstance(statement, str):
        return statement
    if isinstance(statement, bytes):
        return statement[:_HEAD].decode("utf-8", "replace")
    # psycopg's name of it, and psycopg2's.
    parts = getattr(statement, "_obj", getattr(statement, "_wrapped", None))
    if isinstance(parts, str):
        return parts
    if type(statement).__name__ == "Identifier" and isinstance(parts, tuple | list):
        return ".".join(f'"{part}"' for part in parts)
    if type(statement).__name__ == "Composed" and isinstance(parts, tuple | list):
        # A literal stands for an end of what is looked at, like one in a text.
        return "".join("'" if type(part).__name__ == "Literal" else text_of(part) for part in parts)
    return ""


@functools.lru_cache(_REMEMBERED)
def _named(head: str, quotes_are_names: bool) -> str:
    while comment := _COMMENT.match(head):
        head = head[comment.end() :]
    verb = _VERB.match(head)
    if verb is None:
        return "SQL"
    name = verb[1].upper()
    literal = _LITERAL.search(head)
    told = head[: literal.start()] if literal else head
    if not quotes_are_names:
        told = told.partition('"')[0]
    table = _AFTER[name].search(told) if name in _AFTER else None
    return operation(f"{name} {table[1].replace(chr(34), '').replace('`', '')}" if table else name)
