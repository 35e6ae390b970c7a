"""For questions of docs/oncall.md: the trouble, what is typed against it, and that it is gone; measured, unrecorded.

All take five minutes: most are of `make soak`.
"""

from __future__ import annotations

import pytest
from tests.oncall.remedies import REMEDIES, measured

#: One of each kind: permits, threads, off the loop, a timeout, less work.
QUICK = {1, 3, 12, 18, 24}


@pytest.mark.parametrize(
    "question", [pytest.param(each, marks=[] if each in QUICK else [pytest.mark.soak]) for each in REMEDIES]
)
def test_a_remedy_ends_the_trouble(question: int) -> None:
    remedy = REMEDIES[question]
    before, now = measured(remedy)
    said = f"{remedy.said}: {before:.3g} before, {now:.3g} {remedy.unit} now"
    assert now <= remedy.most, said
    assert now <= remedy.most_frac * before, said
