"""Where only the guest is installed (`make guest`), tests that need another distribution are left out."""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path

import pytest

from tests.where import IMPORT_PATH

ALONE = importlib.util.find_spec("greenlane_tools") is None
OTHERS = re.compile(r"greenlane_(?:tools|work|serve|testing)|^from (?:bench|conftest)", re.MULTILINE)
OURS = re.compile(r"from (tests[.\w]+) import (\w+)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if ALONE and collection_path.suffix == ".py" and _needs_others(collection_path):
        return True
    return None


@functools.cache
def _needs_others(path: Path) -> bool:
    """Whether it, or a module of the tests that it imports, names another distribution."""
    seen: set[Path] = set()
    looked_at = [path]
    while looked_at:
        file = looked_at.pop()
        if file in seen:
            continue
        seen.add(file)
        text = file.read_text("utf-8")
        if file.name != "conftest.py" and OTHERS.search(text):
            return True
        looked_at += [found for module, name in OURS.findall(text) for found in _files(module, name)]
    return False


def _files(module: str, name: str) -> list[Path]:
    below = module.replace(".", "/")
    names = (f"{below}.py", f"{below}/{name}.py", f"{below}/__init__.py")
    return [
        path for folder in IMPORT_PATH.split(":") for path in (Path(folder, each) for each in names) if path.is_file()
    ]
