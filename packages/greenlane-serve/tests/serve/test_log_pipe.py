"""The access log's pipe: room in it, no flag of the front's on anybody else's stdout, and what was lost is told."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from tests.serve.served import Served, until
from tests.serve.wire import bystander

from greenlane_serve.processes import LogLost, reopened_pipe


def test_a_pipe_opened_anew_is_the_same_one_with_flags_of_its_own() -> None:
    reads, writes = os.pipe()
    with reopened_pipe(writes) as anew:
        assert anew is not None
        os.set_blocking(anew, False)
        assert os.get_blocking(writes)
        os.write(anew, b"a line")
        assert os.read(reads, 100) == b"a line"
        assert fcntl.fcntl(writes, fcntl.F_GETPIPE_SZ) == 1 << 20
    for fd in (reads, writes):
        os.close(fd)


def test_what_is_no_pipe_stays(tmp_path: Path) -> None:
    with open(tmp_path / "log", "w") as file, reopened_pipe(file.fileno()) as anew:
        assert anew is None


def test_lost_lines_are_told_once_a_minute_and_a_new_front_begins_at_none() -> None:
    lost = LogLost()
    assert lost.line(0, 1000.0) == ""
    assert "has lost 3 lines" in lost.line(3, 1001.0)
    assert lost.line(5, 1002.0) == ""
    assert "has lost 2 lines" in lost.line(5, 1062.0)
    assert "has lost 1 lines" in lost.line(1, 1200.0)


@pytest.mark.system
@pytest.mark.slow
def test_an_applications_output_waits_for_its_reader_whatever_the_front_does(wired: Served) -> None:
    bystander(wired, "/logged")

    def blocks(pid: int) -> bool:
        (flags,) = [line for line in Path(f"/proc/{pid}/fdinfo/1").read_text().splitlines() if "flags" in line]
        return not int(flags.split()[1], 8) & os.O_NONBLOCK

    until(lambda: not blocks(wired.front()))  # it logs after the answer, and sets the flag with its first line
    assert [blocks(pid) for pid in wired.workers()] == [True, True]
