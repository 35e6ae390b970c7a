"""`greenlane inside`: what of Greenlane a serving process loads, patches and starts, counted in a real one."""

from __future__ import annotations

import argparse
import ast
import functools
import io
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from greenlane.cli.command import Command
from greenlane.cli.inside.starting import HOSTS, look_inside
from greenlane.cli.output import Output

__all__ = ["COMMAND", "LIMITS", "row_of"]

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


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", required=True, choices=[*HOSTS], help="started for real, with a tiny application")
    parser.add_argument("-v", "--modules", action="store_true", help="list every module, patch, thread and exit hook")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    row = row_of(arguments.host, look_inside(arguments.host))
    if arguments.json:
        output.document("inside", [row])
        return 0
    listed: list[dict[str, Any]] = row["listed"]
    output.table(listed if arguments.modules else _by_package(listed), ("module", "modules", "code_lines", "lines"))
    output.line()
    most = dict(zip(("modules", "code_lines"), LIMITS.get(arguments.host, ()), strict=False))
    for name in ("modules", "code_lines", "lines", "native_bytes"):
        limit = f" (at most {most[name]:,})" if name in most else ""
        output.line(f"{name.replace('_', ' ') + ':':14}{row[name]:,}{limit}")
    for name in ("patches", "threads", "exit_hooks"):
        output.line(f"{name.replace('_', ' ') + ':':14}{len(row[name])}")
        if arguments.modules or name != "patches":
            for one in row[name]:
                output.line(f"  {one}")
    return 0


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


def _by_package(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of packages: `greenlane.settings` with all below it; modules of the top stand together."""
    rows: dict[str, dict[str, Any]] = {}
    names = {str(one["module"]) for one in listed}
    for one in listed:
        top, _, rest = str(one["module"]).partition(".")
        first = rest.partition(".")[0]
        is_package = first and any(name.startswith(f"{top}.{first}.") for name in names)
        key = f"{top}.{first}" if is_package else top
        row = rows.setdefault(key, {"module": key, "modules": 0, "code_lines": 0, "lines": 0})
        for name in ("modules", "code_lines", "lines"):
            row[name] += one[name]
    return list(rows.values())


COMMAND: Final = Command(
    "inside", "count what a serving process loads, patches and starts", _declare, _run,
    examples=("greenlane inside --host wsgi", "greenlane inside --host gunicorn --modules"),
)  # fmt: skip
