"""Each trouble of `tests.record.truths.troubles` is called by its name, and is as long as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.truths.named import play_trouble
from tests.record.truths.troubles import TROUBLES

pytestmark = pytest.mark.slow

#: The machine may take the core away from the program's clock or ours: then again.
TRIES = 3


@pytest.mark.parametrize("what", TROUBLES)
def test_a_trouble_has_its_right_name_and_length(what: str, tmp_path: Path) -> None:
    lines = []
    for attempt in range(TRIES):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        told = play_trouble(what, 60, folder)
        if all(each.right for each in told):
            return
        lines += [each.line() for each in told if not each.right]
    pytest.fail("\n".join(lines))
