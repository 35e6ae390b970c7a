"""Clocks of two boots are not the same: what was recorded on both is neither merged nor read together."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from tests.record.command import greenlane, recorded
from tests.record.test_command_live import BUSY, a_few_jobs, start

from greenlane.errors import RecordingError
from greenlane_testing import RecordingWriter
from greenlane_tools.reader import Recording, open_recording
from tests.fixtures import StartProcess


def _of(process: int, boot: str) -> bytes:
    writer = RecordingWriter(process, 100 + process)
    # What somebody writes on a command line is not what the recorder says.
    about = {"argv": ['{"boot": "0"}'], "boot": boot}
    writer.event("about", at_ns=1_000, json=json.dumps(about))
    writer.event("mark", at_ns=2_000, what="on")
    return bytes(writer.chunk())


def _segment(folder: Path, process: int, boot: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{100 + process}-{process:016x}-0000.glr"
    path.write_bytes(_of(process, boot))
    return path


def test_a_file_of_two_boots_is_refused() -> None:
    assert len(Recording(_of(1, "a") + _of(2, "a")).processes) == 2
    with pytest.raises(RecordingError, match="since one start of it"):
        Recording(_of(1, "a") + _of(2, "b"))


def test_segments_of_two_boots_are_not_merged_and_kept(tmp_path: Path) -> None:
    parts = tmp_path / "r.glr.parts"
    others = _segment(parts, 1, "a"), _segment(parts, 2, "b")
    ended = greenlane("record", "--merge", "r.glr", cwd=tmp_path)
    assert ended.code == 1 and "boots=2, expected processes of one machine" in ended.err, ended.err
    assert all(path.exists() for path in others) and not (tmp_path / "r.glr").exists()
    others[1].unlink()
    assert greenlane("record", "--merge", "r.glr", cwd=tmp_path).code == 0
    assert len(recorded(tmp_path).processes) == 1


@pytest.mark.slow
def test_a_snapshot_leaves_out_what_an_earlier_boot_has_left(tmp_path: Path, start_process: StartProcess) -> None:
    running = start(start_process, tmp_path, BUSY)
    a_few_jobs(tmp_path)
    left = _segment(tmp_path / "r.glr.parts", 7, "another")
    os.utime(left, (1_700_000_000, 1_700_000_000))
    assert greenlane("record", "--snapshot", "-o", "now.glr", "r.glr", cwd=tmp_path).code == 0
    assert [process.pid for process in open_recording(tmp_path / "now.glr").processes] != [107]
    left.unlink()
    running.signal(signal.SIGINT)
    running.wait_exit()
