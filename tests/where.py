"""Where the checkout is, and what one of our programs has on its import path to find `bench` and `tests`."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

with (ROOT / "pyproject.toml").open("rb") as _file:
    _declared = tomllib.load(_file)["tool"]["pytest"]["ini_options"]["pythonpath"]

#: Entries for PYTHONPATH: `tests` is one namespace package over all of them.
IMPORT_PATH: Final = os.pathsep.join(str((ROOT / entry).resolve()) for entry in _declared)
#: The folders that hold the packages of the distributions.
SOURCES: Final = tuple(sorted((ROOT / "packages").glob("*/src")))
