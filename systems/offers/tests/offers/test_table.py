"""The table that Python and Go both read: what it holds, and what it may not."""

from __future__ import annotations

import math
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from offers import load, site, table, twin
from offers.table import FOLDER, TableError, drawn, read, uniform
from offers.upstreams.server import latency_ms, reply


@pytest.fixture(scope="module")
def known() -> table.Table:
    return read(FOLDER)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER, tmp_path / "table"))


def test_there_are_about_a_hundred_endpoints_of_every_kind(known: table.Table) -> None:
    kinds = [endpoint.kind for endpoint in known.endpoints.values()]
    assert len(kinds) >= 100
    assert set(kinds) == set(table.KINDS)
    used = {step.work for one in known.endpoints.values() for step in one.steps if isinstance(step, table.Compute)}
    assert used == set(table.WORKS)


def test_heavy_endpoints_are_heavier_than_mixed_than_light(known: table.Table) -> None:
    bounds = {"light": (0.1, 2.0), "mixed": (5.0, 25.0), "heavy": (30.0, 150.0), "offer": (0.1, 3.0)}
    for one in known.endpoints.values():
        low, high = bounds[one.kind]
        assert low <= one.cpu_ms <= high, one.name


def test_upstreams_are_in_both_languages(known: table.Table) -> None:
    assert {one.language for one in known.upstreams.values()} == set(table.LANGUAGES)


def test_three_regions_of_which_one_has_bursts(known: table.Table) -> None:
    assert len(known.regions) == 3
    assert [name for name, one in known.regions.items() if one.bursts] == ["hills"]


def test_a_region_s_rates_are_what_its_kinds_say(known: table.Table) -> None:
    for region in known.regions.values():
        rates = known.rates_per_s(region)
        assert min(rates.values()) > 0
        for kind, said in region.kinds.items():
            of_kind = sum(rate for name, rate in rates.items() if known.endpoints[name].kind == kind)
            assert of_kind == pytest.approx(said.per_s)


def test_more_of_an_endpoint_means_more_of_its_kind_s_share(known: table.Table) -> None:
    harbour = known.regions["harbour"]
    rates = known.rates_per_s(harbour)
    transit, shared = known.endpoints["transit_fares"], known.endpoints["shared_quote"]
    assert rates[transit.name] / rates[shared.name] == pytest.approx(4 * transit.weight / shared.weight)
    assert "fleet_report" not in rates


def test_phases_are_what_lies_between_calls(known: table.Table) -> None:
    endpoint = known.endpoints["multi_stop_quote"]
    assert endpoint.calls == ("routing", "routing")
    assert endpoint.phases_ms() == [0.0, 0.0, 18.0]


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("endpoints", 'name = "currency"', 'name = "surge_map"', "a word of its own"),
        ("endpoints", '"/v1/currency"', '"/v1/surge/map"', "a path of its own"),
        ("endpoints", '"/v1/currency"', '"/v1/<currency>"', "letters, digits"),
        ("endpoints", 'kind = "mixed"', 'kind = "middling"', "one of offer, light, mixed, heavy"),
        ("endpoints", 'work = "sort"', 'work = "sleep"', "one of burn, geometry"),
        ("endpoints", 'work = "geometry", cpu_ms = 0.5', 'work = "geometry", cpu_ms = 2.5', "3.0 at most"),
        ("endpoints", 'work = "sort", cpu_ms = 0.5', 'work = "sort", cpu_ms = 2.0', "below 2.0"),
        ("endpoints", '{ call = "eta" }, ', "", "3 or more"),
        ("endpoints", 'call = "eta"', 'call = "weather"', "one of eta, routing, zones, rules"),
        ("endpoints", "times = 2", "times = 0", "a whole number from 1"),
        ("endpoints", "weight = 3", "weigth = 3", "only name, path, kind, weight, steps"),
        ("upstreams", 'language = "go"', 'language = "rust"', "one of python, go"),
        ("upstreams", "p99_ms = 64.0", "p99_ms = 6.4", "median_ms <= p99_ms"),
        ("upstreams", "at_most_ms = 80.0", "at_most_ms = 60.0", "at_most_ms >= p99_ms"),
        ("regions", "transit_fares = 4", "surge_map = 4", "an endpoint of kind mixed"),
        ("regions", 'endpoint = "surge_map"', 'endpoint = "surge"', "an endpoint"),
        ("regions", "riders_per_s = ", "riders_per_s = -", "0 or more"),
        ("regions", "every_s = ", "each_s = ", "each_s"),
        ("regions", "riders_per_s = 20.0", "", "region north: 'riders_per_s', expected the keys of"),
        ("regions", "[[region]]", "[[region", "regions.toml: "),
    ],
)
def test_a_row_that_breaks_a_rule_is_refused_by_name(copy: Path, file: str, old: str, new: str, said: str) -> None:
    place = copy / f"{file}.toml"
    text = place.read_text()
    assert old in text
    place.write_text(text.replace(old, new, 1) if old != '{ call = "eta" }, ' else _without_two_calls(text))
    with pytest.raises(TableError, match=re.escape(said)):
        read(copy)


def _without_two_calls(text: str) -> str:
    """The first endpoint, an offer, without two of its calls."""
    return text.replace('{ call = "eta" }, ', "", 1).replace('{ call = "zones" }, ', "", 1)


def test_a_folder_is_named_by_the_environment(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (copy / "upstreams.toml").write_text((copy / "upstreams.toml").read_text().replace("45.0", "46.0"))
    monkeypatch.setenv("OFFERS_TABLE", str(copy))
    assert read().upstreams["eta"].median_ms == 46.0


@pytest.fixture
def unchanged() -> Iterator[None]:
    """What a site by itself does at SIGTERM is no other test's."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("command", [site.main, twin.main], ids=["site", "twin"])
def test_a_wrong_table_is_said_by_every_command_without_a_traceback(
    command: Callable[[list[str]], int], copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    regions = copy / "regions.toml"
    regions.write_text(regions.read_text().replace("riders_per_s = ", "riders_per_s = -"))
    monkeypatch.setenv("OFFERS_TABLE", str(copy))
    assert command([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "read the table: region north: riders_per_s=-20.0, expected 0 or more\nhint: correct the table\n"


# --- Numbers from names: the same in every process and language, spread evenly.


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


# --- A region's load: the same for the same seed, as much of it as the region says.


ADDRESS = "127.0.0.1:1"
KNOWN = table.read(table.FOLDER)


def of(loaded: load.Load, endpoint: str) -> tuple[np.ndarray, np.ndarray]:
    """When it is asked for (s), and with which numbers."""
    number = [stream.name for stream in loaded.plan.streams].index(endpoint)
    mine = loaded.schedule.stream == number
    return loaded.schedule.at_ns[mine] / 1e9, loaded.schedule.work_ms[mine]


def test_the_same_seed_is_the_same_load_and_another_is_another() -> None:
    hills = KNOWN.regions["hills"]
    one, same, other = (load.with_riders(KNOWN, hills, ADDRESS, 20, seed) for seed in ("a", "a", "b"))
    assert one.plan.streams == same.plan.streams
    assert np.array_equal(one.schedule.at_ns, same.schedule.at_ns)
    assert np.array_equal(one.schedule.work_ms, same.schedule.work_ms)
    assert len(one) != len(other) or not np.array_equal(one.schedule.at_ns, other.schedule.at_ns)


@pytest.mark.parametrize("region", sorted(KNOWN.regions))
@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_a_load_asks_for_the_cpu_that_its_region_says(region: str, scale: float) -> None:
    one = KNOWN.regions[region]
    drawn = load.direct(KNOWN, one, ADDRESS, 60, "x", scale=scale)
    expected_ms = load.expected_cpu_ms_per_s(KNOWN, one, scale) * 60
    streams = drawn.plan.streams
    by_w = np.array([one.work is not None and one.work.parameter == "w" for one in streams])[drawn.schedule.stream]
    cpu_ms = np.array([KNOWN.endpoints[one.name].cpu_ms for one in streams])[drawn.schedule.stream]
    assert float((np.where(by_w, drawn.schedule.work_ms, 1.0) * cpu_ms).sum()) == pytest.approx(expected_ms, rel=0.05)


def test_endpoints_are_streams_of_their_own_and_all_requests_are_in_order() -> None:
    drawn = load.with_riders(KNOWN, KNOWN.regions["hills"], ADDRESS, 30, "x")
    names = [stream.name for stream in drawn.plan.streams]
    assert len(set(names)) == len(names) > 90
    assert (np.diff(drawn.schedule.at_ns) >= 0).all()
    assert drawn.schedule.at_ns[-1] < 30e9
    assert all(stream.path == f"{KNOWN.endpoints[stream.name].path}?region=hills" for stream in drawn.plan.streams)


def test_a_rider_asks_for_bikes_and_scooters_at_one_instant_each_with_an_id_of_its_own() -> None:
    drawn = load.with_riders(KNOWN, KNOWN.regions["north"], ADDRESS, 30, "x")
    (bikes_s, bikes), (scooters_s, scooters) = (of(drawn, name) for name in load.OFFERS)
    assert np.array_equal(bikes_s, scooters_s)
    assert len({*bikes, *scooters}) == 2 * len(bikes)
    rate = KNOWN.regions["north"].riders_per_s
    assert abs(len(bikes) - 30 * rate) < 5 * np.sqrt(30 * rate)


def test_callers_but_offerservice_do_not_ask_for_bikes() -> None:
    drawn = load.direct(KNOWN, KNOWN.regions["hills"], ADDRESS, 30, "x")
    assert not {*load.OFFERS} & {stream.name for stream in drawn.plan.streams}


def test_every_period_has_its_burst_and_small_and_great_ones_are_as_many_as_in_the_law() -> None:
    hills = KNOWN.regions["hills"]
    [burst] = hills.bursts
    at_s, _ = of(load.direct(KNOWN, hills, ADDRESS, burst.every_s * 40, "x"), burst.endpoint)
    instants, sizes = np.unique(at_s, return_counts=True)
    instants, sizes = instants[sizes > 1], sizes[sizes > 1]
    # A burst of one cannot be told from a caller of its own.
    assert 36 <= len(instants) <= 40
    assert np.unique(instants // burst.every_s).size == len(instants)
    assert sizes.max() <= burst.size_most
    assert sizes.mean() == pytest.approx(burst.size_mean, rel=0.15)
