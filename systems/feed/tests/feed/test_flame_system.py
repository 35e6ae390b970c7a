"""py-spy's flame graph of the real service, as the article ran it."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from feed.advice.flame import FlameError, flame, py_spy, record
from feed.site import Site

pytestmark = pytest.mark.system


def test_the_flame_graph_shows_the_ranking_and_names_its_longest_parts(site: Site, tmp_path: Path) -> None:
    picture = tmp_path / "flame.svg"
    try:
        parts = flame(site, "inline", picture, 1.0, lambda line: None)
    except FlameError as error:
        if "ermission" in str(error) or "not permitted" in str(error):
            pytest.skip("this machine lets nobody look at other processes")
        raise
    text = picture.read_text("utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    # The ranking's functions are on the picture, whatever was on top of the stack just then.
    assert "feed/variants/plain.py" in text or "feed/features.py" in text
    assert parts and 0 < sum(part.self_frac for part in parts) <= 1 + 1e-9
    assert parts == sorted(parts, key=lambda part: -part.self_frac)


def test_a_process_that_is_gone_is_told(tmp_path: Path) -> None:
    try:
        program = py_spy()
    except FlameError as error:
        pytest.skip(str(error))
    gone = subprocess.Popen(["true"])
    gone.wait()
    with pytest.raises(FlameError, match=r"hint: "):
        record(program, gone.pid, tmp_path / "none.svg", "flamegraph", 1)
