"""docs/tutorial.md: its commands are run, with another port and folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.child import Child, free_port
from tests.where import ROOT

BIN = Path(os.environ.get("EXAMPLES_BIN") or Path(sys.executable).parent)  # see test_examples.py
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / "tutorial.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_tutorial_runs_from_the_diagnosis_to_the_switch(tmp_path: Path) -> None:
    port = free_port()
    install, record, load, report, fixed, controlled, switch = (
        block.replace("/tmp/", f"{tmp_path}/").replace("shop.glr", f"{tmp_path}/shop.glr").replace("8000", str(port))
        for block in BLOCKS
    )
    environ = {"PATH": f"{BIN}:{os.environ['PATH']}"}
    assert install.endswith("\ncd examples\n"), "`make examples` does the rest of it"

    def sh(script: str) -> str:
        done = subprocess.run(["bash", "-ec", script], env=environ, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for server, then in ((record, load), (fixed, load), (controlled, switch)):
        first, last = server.strip().rpartition("\n")[::2]
        with Child(["bash", "-ec", f"{first}\nexec {last}"], cwd=ROOT / "examples", env=environ) as child:
            child.wait_port(port)
            said = sh(then)
            child.end(grace_s=30)
        if server == record:
            assert "no process was recorded" not in child.output, child.output
            told = sh(report)
            assert "GET /heavy" in told
            assert "GIL" in told
    assert [line.split()[1] for line in said.splitlines() if line.split()[0].isdigit()] == ["on", "off", "on"]
