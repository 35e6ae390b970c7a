"""Numbers from names: the same in every process and language, spread evenly."""

from __future__ import annotations

import math

import numpy as np
import pytest

from offers.table import FOLDER, drawn, read, uniform
from offers.upstreams.server import latency_ms, reply


def _slowly(text: str) -> int:
    """FNV-1a and MurmurHash3's finaliser as their authors print them, on 64-bit words that wrap by themselves."""
    with np.errstate(over="ignore"):
        state = np.uint64(14695981039346656037)
        for byte in text.encode():
            state = (state ^ np.uint64(byte)) * np.uint64(1099511628211)
        for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
            state = (state ^ (state >> np.uint64(33))) * factor
        return int(state ^ (state >> np.uint64(33)))


@pytest.mark.parametrize(("what", "name"), [("", ""), ("eta", "r1-1"), ("price-bikes_price", "r17-bikes"), ("é", "ü")])
def test_a_number_is_the_hash_that_it_claims_to_be(what: str, name: str) -> None:
    assert drawn(what, name) == _slowly(f"{what}|{name}")


def test_numbers_of_neighbouring_names_are_spread_evenly() -> None:
    values = np.array([uniform("eta", f"r{n}-1") for n in range(4_000)])
    assert 0 < values.min() and values.max() < 1
    counts, _ = np.histogram(values, 20, (0, 1))
    assert np.abs(counts - 200).max() < 5 * math.sqrt(200)
    # ... and the second call of a request knows nothing of the first.
    others = np.array([uniform("eta", f"r{n}-2") for n in range(4_000)])
    assert abs(float(np.corrcoef(values, others)[0, 1])) < 0.08


@pytest.mark.parametrize("name", ["eta", "routing", "zones", "rules"])
def test_latencies_have_the_median_and_the_percentile_that_the_table_says(name: str) -> None:
    upstream = read(FOLDER).upstreams[name]
    values = np.sort([latency_ms(upstream, f"r{n}-3") for n in range(5_000)])
    assert values[2_500] == pytest.approx(upstream.median_ms, rel=0.02)
    assert values[4_950] == pytest.approx(upstream.p99_ms, rel=0.04)
    assert values[-1] <= upstream.at_most_ms
    assert latency_ms(upstream, "r7-3") == latency_ms(upstream, "r7-3")


def test_replies_are_plausible_and_follow_from_the_id() -> None:
    route = reply("routing", "r1-2")
    assert route == reply("routing", "r1-2") != reply("routing", "r1-3")
    assert len(route["route"]) == 8
    assert all(45_700_000 <= north < 45_760_000 and 4_800_000 <= east < 4_860_000 for north, east in route["route"])
    assert 60 <= reply("eta", "a")["eta_s"] < 900
    assert 0 <= reply("zones", "a")["zone"] < 64
    assert 80 <= reply("rules", "a")["factor_percent"] <= 140
