"""What pos's services are made of: nothing that measures is in a process that serves orders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from greenlane_tools.lab.processes import found_by
from pos.children import ROOT
from pos.surroundings import VARIABLE, Surroundings

LOADED = "import sys, importlib; importlib.import_module(sys.argv[1]); print(*sorted(sys.modules))"


@pytest.mark.slow
@pytest.mark.parametrize("module", ["pos.worker", "pos.backend.application", "pos.merchants.serve"])
def test_a_service_never_loads_what_measures(module: str, tmp_path: Path) -> None:
    Surroundings("amqp://nobody").write(tmp_path / "surroundings.json")
    env = {**found_by(ROOT), VARIABLE: str(tmp_path / "surroundings.json")}
    ran = subprocess.run([sys.executable, "-c", LOADED, module], env=env, check=True, stdout=subprocess.PIPE, text=True)
    loaded = ran.stdout.split()
    assert module in loaded
    assert not [
        name for name in loaded if name.startswith(("greenlane_tools.lab", "greenlane_tools.page", "pos.children"))
    ]
