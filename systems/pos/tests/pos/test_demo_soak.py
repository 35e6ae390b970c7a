"""The demo as people start it: its JSON, and Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from greenlane_tools.lab.processes import descendants, found_by
from pos.children import ROOT

pytestmark = pytest.mark.soak
PROGRAM = str(Path(sys.executable).with_name("greenlane"))
#: What every row has, for any reader.
FIELDS = (
    "contender", "endpoint", "stage", "merchant_class", "offered_per_s", "done_per_s", "samples", "done_frac", "p50_ms",
    "p95_ms", "p99_ms", "cpu_ms_per_job", "cpu_utilisation_frac", "pss_mb", "errors", "lost", "effects_doubled",
    "calls_repeated", "parked_max",
)  # fmt: skip


def test_a_short_run_gives_rows_of_stock_and_ours(tmp_path: Path) -> None:
    options = ["--contenders", "prefork-4,greenlane", "--seconds", "3", "--per-s", "40", "--json"]
    ended = subprocess.run(
        [PROGRAM, "demo", "pos", *options, "--out", str(tmp_path)], env=found_by(ROOT), capture_output=True, timeout=300
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr.decode()
    document = json.loads(ended.stdout)
    assert document["schema"] == "greenlane.demo-pos/1" and document["environment"]["versions"]["celery"]
    cells = [(row["stage"], row["contender"], row["merchant_class"]) for row in document["rows"]]
    assert cells == [
        ("slow-merchant", "prefork-4", "healthy"), ("slow-merchant", "prefork-4", "slow"),
        ("slow-merchant", "greenlane", "healthy"), ("slow-merchant", "greenlane", "slow"),
        ("capacity", "prefork-4", None), ("capacity", "greenlane", None),
    ]  # fmt: skip
    for row in document["rows"]:
        assert not [field for field in FIELDS if field not in row]
        assert (row["lost"], row["effects_doubled"]) == (0, 0)
    four, ours = document["rows"][0], document["rows"][2]
    assert four["samples"] == ours["samples"] == 108
    assert (four["done"] < 108, ours["done"]) == (True, 108)
    assert (four["parked_max"], ours["parked_max"] is None) == (None, False)
    # Capacity, healthy orders done, their p95, calls at the slow merchant, orders held, lost, doubled.
    assert len(document["verdicts"]) == 7
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == document["rows"]


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    command = [PROGRAM, "demo", "pos", "--contenders", "gevent-200", "--out", str(tmp_path)]
    with subprocess.Popen(command, env=found_by(ROOT), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as demo:
        until = time.monotonic() + 120
        # Itself, broker, port mapper, ten merchants, the worker.
        while len(family := descendants(demo.pid)) < 14 and time.monotonic() < until:
            time.sleep(0.1)
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=60)
    assert (demo.returncode, out) == (130, b"")
    assert b"stopped; all processes ended" in err
    assert len(family) >= 14 and not [pid for pid in family if Path(f"/proc/{pid}/cmdline").exists() and _ours(pid)]


def _ours(pid: int) -> bool:
    """It still runs a part of pos; the number may be a stranger's by now."""
    return any(part in Path(f"/proc/{pid}/cmdline").read_bytes() for part in (b"pos.", b"rabbitmq", b"epmd"))
