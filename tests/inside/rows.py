"""What of Greenlane a serving process loads, patches and starts, counted: modules, lines of code, bytes, threads."""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: Host -> the most modules and the most lines of code that its process may load: a promise, held by a test.
LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "wsgi": (45, 4_000),
    "gunicorn": (70, 6_000),
    "record": (70, 5_500),
    "work": (110, 9_000),
    "serve": (70, 6_000),
}

_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)
_WITH_DOCSTRING: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def row_of(host: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a host: sums, names, and the field `listed` with its modules."""
    listed = []
    for name, path in found["modules"]:
        code, lines = lines_of(Path(path))
        listed.append({"module": name, "modules": 1, "code_lines": code, "lines": lines})
    return {
        "host": host,
        "modules": len(listed),
        "code_lines": sum(one["code_lines"] for one in listed),
        "lines": sum(one["lines"] for one in listed),
        "native_bytes": sum(size for _, size in found["native"]),
        "patches": found["patches"],
        "threads": found["threads"],
        "exit_hooks": found["exit_hooks"],
        "listed": listed,
    }


@functools.cache
def lines_of(path: Path) -> tuple[int, int]:
    """(lines of code, all lines) of a file; blank lines, comments and docstrings are no code."""
    source = path.read_text(encoding="utf-8")
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            code.difference_update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(code), source.count("\n")
