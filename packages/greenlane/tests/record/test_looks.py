"""A loop's recording tells what computes without the GIL: looks at who has it, whatever the loop makes of that."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.command import record, recorded

from greenlane_tools.plan.recorded import profile_of_recording
from greenlane_tools.plan.recorded_host import unlocked_fracs
from greenlane_tools.reader.rows import Job

#: `native` computes for 12 ms in one call that releases the GIL, `python` with it; `holds` sleeps so long in C without
#: the GIL, which the recorder does not see as a call.
ROUTES = """
import ctypes, hashlib, random, time

libc = ctypes.CDLL(None)

def burn(ms):
    until = time.thread_time() + ms / 1000
    while time.thread_time() < until:
        pass

began = time.thread_time()
hashlib.pbkdf2_hmac("sha256", b"a", b"b", 50_000)
ROUNDS = int(50_000 / (time.thread_time() - began) * 0.012)

def native():
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", ROUNDS)

def python():
    burn(12)

def holds():
    libc.usleep(12_000)

def pass_by():
    pass

def turns():
    chance = random.Random(5)
    for _ in range(130):
        for work in chance.sample((native, python, holds), 3):
            yield work, chance.expovariate(1 / 0.004)
"""
ON_GEVENT = f"""
from gevent import monkey; monkey.patch_all()
import gevent
{ROUTES}
def one(work):
    with greenlane.record.job(work.__name__):
        work()
for work, pause in turns():
    gevent.spawn(one, work).join()
    gevent.sleep(pause)
"""
ON_ASYNCIO = f"""
import asyncio
{ROUTES}
async def one(work):
    with greenlane.record.job(work.__name__):
        await asyncio.sleep(0.001)
        work()
async def main():
    for work, pause in turns():
        await asyncio.gather(one(work), asyncio.sleep(pause), one(pass_by))
asyncio.run(main())
"""


def _found(folder: Path) -> dict[str, float]:
    recording = recorded(folder)
    jobs: dict[str, list[Job]] = {}
    for job in recording.jobs:
        jobs.setdefault(job.route, []).append(job)
    return dict(unlocked_fracs(recording.looks, jobs))


@pytest.mark.slow
@pytest.mark.parametrize("program", [ON_GEVENT, ON_ASYNCIO], ids=["gevent", "asyncio"])
def test_what_computes_without_the_gil_is_found_and_what_only_sleeps_is_not(program: str, tmp_path: Path) -> None:
    ended = record(program, cwd=tmp_path)
    assert ended.code == 0, ended.err
    found = _found(tmp_path)
    assert found["native"] > 0.8 and found["python"] == 0
    assert "holds" not in found
    profile = profile_of_recording(recorded(tmp_path))
    assert profile.route("native").unlocked_frac == found["native"]
    assert not any("without the GIL" in sentence for sentence in profile.notes)
    beside, same = profile.simulated("permits").route("native"), profile.simulated().route("native")
    assert beside.demand.free_ms > 4 * beside.demand.cpu_ms and same.demand.free_ms == 0


@pytest.mark.slow
def test_without_stacks_nobody_looks(tmp_path: Path) -> None:
    ended = record(ON_GEVENT.replace("range(130)", "range(20)"), "--no-stacks", cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert recorded(tmp_path).looks == []
    assert any("without the GIL" in sentence for sentence in profile_of_recording(recorded(tmp_path)).notes)
