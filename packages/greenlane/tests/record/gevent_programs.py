"""Programs under the gevent probe, each in a process of its own, and what their recordings say."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from greenlane_tools.reader.recording import Recording, open_recording
from greenlane_tools.reader.rows import Job

# The program may import gevent before or after `begin()`, and ends with `end()`.
_BEFORE = """
import os, sys, time
from greenlane._native import Recorder, Switches, calls_install, calls_uninstall
from greenlane.probes import gevent as probe
from greenlane.record.jobs import job

recorder = Recorder()

def begin(folder=sys.argv[1]):
    recorder.start(folder, max_bytes=1 << 26, about="{}")
    calls_install()
    probe.install()

def end():
    probe.uninstall()
    calls_uninstall()
    recorder.stop()

def burn(ms):
    end_ns = time.thread_time_ns() + int(ms * 1e6)
    while time.thread_time_ns() < end_ns:
        pass
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program printed, and recorded."""

    printed: list[str]
    recording: Recording

    def jobs(self, route: str) -> list[Job]:
        """Give the jobs of one route."""
        return [job for job in self.recording.jobs if job.route == route]

    def job(self, route: str) -> Job:
        """Give the only job of a route."""
        (job,) = self.jobs(route)
        return job


def ran(folder: Path, program: str, **environment: str) -> Ran:
    """Run `program` behind the prelude above; its recording is in `folder`."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _BEFORE + program, str(folder)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Ran(done.stdout.splitlines(), open_recording(folder))
