"""Shares of routes: what the front's map says, and how a service is found."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from greenlane.errors import ControlError, ServeError, SettingsError
from greenlane_serve import diversion, folders
from greenlane_serve.diversion import Diverted, change, hidden_by, keep, read
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.lanes import layout_of
from greenlane_serve.settings import ServeSettings


class Told(Runtime):
    """A front that takes a map as HAProxy does; what it holds is `held`."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))
        self.held: list[str] = []
        self.fails = False
        self._next: list[str] = []

    def ask(self, command: str) -> str:
        word, _, rest = command.partition(" map ")
        if word == "prepare":
            self._next = []
            return "New version created: 1\n"
        if word == "add":
            self._next += rest.partition("<<\n")[2].splitlines()
            return "refused\n" if self.fails else "\n"
        self.held = self._next
        return "\n"


def lines(told: Told) -> Iterator[tuple[str, str]]:
    for line in told.held:
        key, _, value = line.partition(" ")
        yield key, value


def test_the_map_holds_what_is_diverted_and_the_file_says_the_same(tmp_path: Path) -> None:
    told = Told()
    change(tmp_path, told, Diverted("GET /bikes/<id>", "next", 0.25))
    change(tmp_path, told, Diverted("/a b*", "next", 1))
    (bikes, quarter), (spaces, whole) = lines(told)
    assert (quarter, whole) == ("next:2500", "next:10000")
    assert re.search(bikes, "GET:/bikes/7")
    assert not re.search(bikes, "POST:/bikes/7")
    assert not re.search(bikes, "GET:/bikes/7/8")
    assert re.search(spaces, "DELETE:/a b/c")
    assert (tmp_path / diversion.MAP).read_text().splitlines() == told.held


@pytest.mark.parametrize(
    ("above", "share_frac", "flow", "hides"),
    [("/bikes/*", 0.1, "GET /bikes/7", True), ("/bikes/*", 0, "GET /bikes/7", False),
     ("GET /bikes/*", 1, "/bikes/7", False), ("/bikes/7", 1, "/bikes/*", False), ("/bikes/*", 1, "/bikes/*", False)],
)  # fmt: skip
def test_a_route_that_one_set_before_takes_whole_is_known(
    above: str, share_frac: float, flow: str, hides: bool
) -> None:
    shares = [Diverted("/x", "next", 1), Diverted(above, "next", share_frac), Diverted(flow, "next", 1)]
    assert hidden_by(shares, flow) == (above if hides else "")
    assert hidden_by(shares[:1] + shares[:0:-1], flow) == "", "what is set later hides nothing"


def test_a_change_names_no_version_again_and_0_takes_it_out(tmp_path: Path) -> None:
    told = Told()
    change(tmp_path, told, Diverted("/x", "next", 0.1))
    assert change(tmp_path, told, Diverted("/x", "", 0.2)).to == "next"
    assert change(tmp_path, told, Diverted("/x", "", 0)).to == "next"
    assert told.held == []
    assert [(one.flow, one.to, one.share_frac) for one in read(tmp_path)] == [("/x", "next", 0)]
    with pytest.raises(SettingsError, match="the version that the share goes to"):
        change(tmp_path, told, Diverted("/y", "", 0.2))


def test_what_the_front_refuses_is_not_written_down(tmp_path: Path) -> None:
    told = Told()
    change(tmp_path, told, Diverted("/x", "next", 0.1))
    told.fails = True
    with pytest.raises(ServeError, match="refused"):
        change(tmp_path, told, Diverted("/x", "next", 0.2))
    assert [one.share_frac for one in read(tmp_path)] == [0.1]
    assert told.held == ["^[^:]*:/x$ next:1000"]


def test_a_version_that_is_no_more_is_forgotten(tmp_path: Path) -> None:
    told = Told()
    change(tmp_path, told, Diverted("/x", "next", 0.1))
    change(tmp_path, told, Diverted("/y", "other", 1))
    keep(tmp_path, {"other"})
    assert [one.flow for one in read(tmp_path)] == ["/y"]
    assert (tmp_path / diversion.MAP).read_text() == "^[^:]*:/y$ other:10000\n"


def test_a_service_is_found_by_its_address_and_only_where_nobody_else_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = tmp_path / "service"
    folder.mkdir()
    folders.announce(folder, ["127.0.0.1:8000", "/run/x.sock"])
    assert folders.folder_of("127.0.0.1:8000", "look") == folder
    assert folders.folder_of("/run/x.sock", "look") == folder
    os.chmod(tmp_path / f"greenlane-{os.getuid()}", 0o755)
    with pytest.raises(ControlError, match="that runs here"):
        folders.folder_of("127.0.0.1:8000", "look")
    os.chmod(tmp_path / f"greenlane-{os.getuid()}", 0o700)
    folders.withdraw(folder)
    with pytest.raises(ControlError, match="that runs here"):
        folders.folder_of("127.0.0.1:8000", "look")


def test_versions_have_groups_of_their_own(tmp_path: Path) -> None:
    settings = ServeSettings(workers=3, versions={"next": str(tmp_path)})
    assert layout_of(settings).groups == {"shared": 3, "version-next": 3}
    one = ServeSettings(workers=3, versions={"next": str(tmp_path)}, version_workers=1)
    assert layout_of(one).groups["version-next"] == 1
    with pytest.raises(SettingsError, match="a directory that exists"):
        layout_of(ServeSettings(versions={"next": str(tmp_path / "missing")}))
    with pytest.raises(SettingsError, match="a name of 1 to 40"):
        layout_of(ServeSettings(versions={"new version": str(tmp_path)}))
