"""A hog and overcommit are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.gevent_programs import ran

pytestmark = pytest.mark.slow


#: A slice of at least this is a hog's, us: 2**15.
HOG = 15


@pytest.mark.parametrize("hog", [False, True])
def test_a_hog_and_many_short_slices_are_told_apart(hog: bool, tmp_path: Path) -> None:
    program = """
begin()
import gevent

def request():
    for _ in range(4):
        with job("request"):
            burn(2.5)
            gevent.sleep(0.01)
            burn(2.5)

def report():
    for _ in range(3):
        with job("report"):
            burn(200)
        gevent.sleep(0.02)

requests = [gevent.spawn(request) for _ in range(2 if HOG else 40)]
if HOG:
    requests.append(gevent.spawn(report))
gevent.joinall(requests)
end()
"""
    recording = ran(tmp_path, f"HOG = {hog}\n{program}").recording
    waits = [one for one in recording.blame if one.victim == "request" and one.kind == "loop" and one.phase >= 0]
    long_ns = sum(sum(one.by_length_ns[HOG:]) for one in waits)
    all_ns = sum(one.ns for one in waits)
    culprits = {one.culprit for one in waits if one.ns > all_ns / 2}
    if hog:
        assert long_ns >= 0.8 * all_ns
        assert "report" in culprits
    else:
        # A slice may be long because the machine took the core away.
        assert long_ns <= 0.2 * all_ns
        assert "report" not in culprits
