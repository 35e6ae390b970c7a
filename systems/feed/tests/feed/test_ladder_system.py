"""The ladder on real servers: a small one runs through, and Ctrl-C leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from feed.children import ROOT
from feed.ladder.options import OURS, Options
from feed.ladder.rows import rows_of, verdicts_of
from feed.ladder.run import Kept, measured
from feed.ladder.tables import shown, steps_of
from feed.site import Site
from greenlane_tools.lab.processes import descendants, found_by

pytestmark = pytest.mark.system


class Silent:
    """Nobody hears of the run."""

    def show(self, text: str) -> None: ...

    def say(self, text: str) -> None: ...

    def progress(self, text: str) -> None: ...


@pytest.mark.timeout(120)
def test_a_small_ladder_runs_through(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feed.ladder.loaded._RUSH_S", 0.3)
    monkeypatch.setattr("feed.ladder.loaded._PROBES", 1)
    monkeypatch.setattr("feed.ladder.run._WARM_PLACED", 4)
    monkeypatch.setattr("feed.ladder.run._OUTAGE_S", 2.4)
    options = Options(variants=("pool", OURS), seconds=0.6, repetitions=2, users=2, workers=1, out=tmp_path)
    kept = Kept(tmp_path, {}, fresh=True)
    result = measured(options, kept, Silent(), site)
    rows = rows_of(result)
    cells = [(row["contender"], row["cell"], row["beside"]) for row in rows if row["stage"] is None]
    assert cells == [
        ("pool", "half", ""), (OURS, "half", "pool"), (OURS, "half", OURS),
        ("pool", "at the pool's rate", ""), (OURS, "at the pool's rate", ""),
    ]  # fmt: skip
    by_cell = {(row["contender"], row["beside"]): row for row in rows if row["stage"] is None and row["cell"] == "half"}
    for row in by_cell.values():
        assert (row["orders_right"], row["errors"]) == (2, 0)
        assert row["cpu_ms_per_job"] > row["path_cpu_ms_per_job"] > 0
    # What is pickled is counted, both ways; ours moves nothing.
    assert by_cell["pool", ""]["bytes_moved_per_job"] > 100_000
    assert by_cell[OURS, "pool"]["bytes_moved_per_job"] == 0
    assert [one["function"] for one in by_cell[OURS, "pool"]["placements"]] == ["feed.variants.greenlane._ranked"]
    stages = {row["stage"] for row in rows if row["contender"] == "pool" and row["stage"]}
    assert {"records", "decode", "executor", "features", "predict", "sort"} <= stages
    parts = by_cell["pool", ""]["parts_cpu_ms"]
    assert set(parts) == {"service", "workers", "history", "models", "shards"} and min(parts.values()) > 0
    verdicts = verdicts_of(result)
    assert verdicts[0].holds
    assert "Must show" in shown(result, rows, verdicts, steps_of(result))
    # Nothing is measured twice.
    assert measured(options, kept, Silent(), site) == result


@pytest.mark.timeout(60)
def test_ctrl_c_ends_every_process(tmp_path: Path, folder: Path, site: Site) -> None:
    program = (
        "import sys; from pathlib import Path; import feed.ladder.run as run; from feed.site import Plan, Site\n"
        "plan = Plan(Path(sys.argv[1]), items=int(sys.argv[2]), users=10, model=Path(sys.argv[3]))\n"
        "run.Plan = lambda folder, items: plan\n"
        "from feed.ladder.command import main; sys.exit(main(sys.argv[4:], sys.stdout, sys.stderr))"
    )
    items = str(len(site.world.catalogue))
    arguments = [str(folder), items, str(site.model), "--variants", "inline", "--out", str(tmp_path / "o")]
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], env={**os.environ, **found_by(ROOT)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, process_group=0,
    ) as child:  # fmt: skip
        until = time.monotonic() + 40
        # Stores, models, and the first service.
        while len(pids := descendants(child.pid)) < 10 and time.monotonic() < until and child.poll() is None:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    assert (child.returncode, out) == (130, ""), err
    assert "all processes ended" in err
    assert len(pids) >= 10
    assert not [pid for pid in pids if alive(pid)]


def alive(pid: int) -> bool:
    """It runs, and is no zombie that somebody else has to bury."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
