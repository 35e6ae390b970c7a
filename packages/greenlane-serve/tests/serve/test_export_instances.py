"""The servers of a fleet, and what one front may give each."""

from __future__ import annotations

import pytest

from greenlane.errors import SettingsError
from greenlane.settings import Lane
from greenlane_serve.export.instances import fleet_of
from greenlane_serve.lanes import SHARED, Match
from greenlane_serve.settings import ServeSettings

LANES = (
    Lane("light", match=("/light*",), processes=1, priority=5),
    Lane("few", match=("/few*",), at_once=3),
    Lane("mine", match=("/mine*",), kind="hard", processes=1),
)
SETTINGS = ServeSettings(workers=5, at_once=4, lanes=LANES)


def test_places_add_up_over_the_servers() -> None:
    whole = fleet_of(SETTINGS, ["a:1", "b:2", "c:3"]).whole()
    assert whole.groups == {SHARED: 3 * 16, "lane-mine": 3 * 4}
    light, few, mine, rest = whole.lanes
    assert (light.processes, few.at_once, mine.processes) == (12, 9, 12)
    assert whole.most(light, 1) == 48
    assert whole.most(rest, 1) == 48 - 12
    assert whole.most(few, 1) == 9


def test_a_hard_lane_may_have_servers_of_its_own() -> None:
    fleet = fleet_of(SETTINGS, ["a:1", "mine=b:2"])
    assert [one.address for one in fleet.instances[SHARED]] == ["a:1"]
    assert [one.address for one in fleet.instances["lane-mine"]] == ["b:2"]


def test_each_front_uses_its_part_of_the_places() -> None:
    fleet = fleet_of(SETTINGS, ["a:1", "b:2"], fronts=2)
    assert fleet.places(SHARED) == 8
    assert fleet.whole().most(fleet.whole().lanes[-1], 1) == 16 - 4


@pytest.mark.parametrize(
    ("servers", "fronts", "said"),
    [
        (["mine=a:1"], 1, "at least one for all lanes"), (["light=a:1"], 1, "one of the hard lanes"),
        (["a"], 1, "host:port"), (["a:0"], 1, "host:port"), (["a b:1"], 1, "host:port"), (["a;b:1"], 1, "host:port"),
        (["a:1"], 5, "at most 4, the places of a server"),
    ],
)  # fmt: skip
def test_what_cannot_hold_is_named(servers: list[str], fronts: int, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        fleet_of(SETTINGS, servers, fronts)


def test_an_ipv6_address_keeps_its_brackets() -> None:
    (one,) = fleet_of(SETTINGS, ["[2001:db8::1]:80"]).instances[SHARED]
    assert (one.host, one.address) == ("2001:db8::1", "[2001:db8::1]:80")


@pytest.mark.parametrize(
    ("path", "written"),
    [("/a b*", "/a%20b*"), ("/ü", "/%C3%BC"), ("/50%", "/50%25"), ("/bikes/<id>", "/bikes/<id>"), ("/[!a]?", "/[!a]?")],
)  # fmt: skip
def test_a_path_is_written_as_in_a_request_line(path: str, written: str) -> None:
    assert Match("GET", path).encoded == Match("GET", written)
