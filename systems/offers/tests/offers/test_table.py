"""The table that Python and Go both read: what it holds, and what it may not."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offers import mix, site, table, twin
from offers.table import FOLDER, TableError, read


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
@pytest.mark.parametrize("command", [site.main, mix.main, twin.main], ids=["site", "mix", "twin"])
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
