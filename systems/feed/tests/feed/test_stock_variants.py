"""What Greenlane is measured against carries nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from feed.running import ROOT
from greenlane_tools.lab.processes import found_by

LOADED = """
import sys, importlib, feed.service.__main__
importlib.import_module(f"feed.variants.{sys.argv[1]}")
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "greenlane"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["inline", "pool", "split", "native_go"])
def test_a_stock_variants_process_loads_nothing_of_greenlane(variant: str) -> None:
    command, env = [sys.executable, "-c", LOADED, variant], {**os.environ, **found_by(ROOT)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
