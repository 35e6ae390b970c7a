"""CONTRIBUTING tells a request's way through the worker in ten lines; what it names is there."""

from __future__ import annotations

import ast
import re

from tests.where import ROOT

FOLDER = ROOT / "packages/greenlane/src/greenlane/hosts/gunicorn"
HEADING = "### A request's way through the gunicorn worker\n"


def names(file: str) -> set[str]:
    """Functions, classes, and methods as `Class.method`."""
    found = set()
    for node in ast.parse((FOLDER / file).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_the_ten_lines_name_what_is_there() -> None:
    section = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition(HEADING)[2].partition("\n##")[0]
    lines = re.findall(r"^\d+\. (.*)$", section, re.MULTILINE)
    assert len(lines) == 10
    told = [pair for line in lines for pair in re.findall(r"`([\w./]+\.py)` `([\w.]+)`", line)]
    assert len(told) >= 10
    assert not [f"{file}: {name}" for file, name in told if name not in names(file)]
