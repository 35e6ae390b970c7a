"""No attack makes any class slower than it is without permits, but for the debts that are named."""

from __future__ import annotations

import statistics

import pytest
from tests.lanes.attacks import ATTACKS, ran
from tests.lanes.burners import permits

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.measured]

#: Interleaved; the median counts.
_REPETITIONS = 3
#: Less is lost in what a thread's wake-up takes, s.
_SLACK_S = 0.002


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_class_pays(attack: str) -> None:
    make, most = ATTACKS[attack]
    means: dict[tuple[str, str], list[float]] = {}
    for _ in range(_REPETITIONS):
        for mode in ("on", "off"):
            for route, latencies_s in ran(permits(mode), make()).items():
                means.setdefault((route, mode), []).append(statistics.mean(latencies_s))
    took_s = {key: statistics.median(found) for key, found in means.items()}
    ratios = {route: took_s[route, "on"] / (took_s[route, "off"] + _SLACK_S) for route, mode in took_s if mode == "on"}
    assert max(ratios.values()) <= most, ratios
