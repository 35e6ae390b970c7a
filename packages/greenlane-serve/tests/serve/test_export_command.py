"""`greenlane export`: what it writes where, and what it refuses."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from greenlane.cli.main import main
from greenlane.errors import SettingsError
from greenlane.settings import Lane, settings_of
from greenlane_serve.export import envoy, haproxy, kubernetes, nginx
from greenlane_serve.export.fleet import CARRIED, REFUSED, fleet_of
from greenlane_serve.export.kubernetes import Cluster, documents, doubtful
from greenlane_serve.export.routes import meet
from greenlane_serve.lanes import SHARED, Match
from greenlane_serve.settings import ServeSettings

# --- Every setting of serve, for each target: its file says it, the servers behind do it, or it is refused by its
# name.


CARRIED_SETTINGS = ServeSettings(workers=4, at_once=2, lanes=(Lane("light", match=("/light*",), processes=1),))
CARRIED_CLUSTER = kubernetes.Cluster("shop", "shop:app", "registry/shop:7", "")
# Values that no rule of the declaration tells: another one than the default, with what it needs beside it.
OTHER: dict[str, Any] = {
    "bind": ("0.0.0.0:81",), "metrics_bind": ("0.0.0.0:82",), "tls_bind": ("0.0.0.0:443",), "tls_certificate": "/a.pem",
    "tls_key": "/b.pem", "tls_min_version": "1.3", "user": "shop",
    "trusted_proxies": ("10.0.0.0/8",), "access_log": "stdout", "alive_path": "/alive",
    "request_id_header": "x-id", "health_path": "/healthz", "metrics_path": "/measured", "deadline_headers": ("x-due",),
    "placements": {"a:b": "process"}, "cluster_address": "local",
    "process_warm_up": "a:b", "control_dir": "/control", "record_folder": "/record",
    "workers": 6, "root_path": "/shop",
}  # fmt: skip
TLS = {"tls_bind": ("0.0.0.0:443",), "tls_certificate": "/a.pem"}
BESIDE: dict[str, dict[str, Any]] = {
    "metrics_bind": {"alive_path": "/alive"}, "proxy_protocol": {"trusted_proxies": ("10.0.0.0/8",)},
    **dict.fromkeys(("tls_bind", "tls_certificate", "tls_key", "tls_redirect"), TLS),
    "access_log_format": {"access_log": "stdout"},
}  # fmt: skip
# A pod says these itself.
PODS_OWN = {"bind", "workers", "control_dir", "record_folder", "metrics_bind"}
NAMES = sorted(settings_of(ServeSettings))


def other(name: str) -> Any:
    """A value that is not the default."""
    if name in OTHER:
        return OTHER[name]
    key = settings_of(ServeSettings)[name]
    if key.choices:
        return next(one for one in key.choices if one != key.default)
    if isinstance(key.default, bool):
        return not key.default
    assert isinstance(key.default, int | float), name
    low = key.low or 0
    return type(key.default)(low if low != key.default else low + 1)


def text(target: str, settings: ServeSettings) -> str:
    if target == "kubernetes":
        return str(kubernetes.documents(settings, CARRIED_CLUSTER))
    fleet = fleet_of(settings, ["10.0.0.1:8000", "10.0.0.2:8000"])
    if target == "haproxy":
        return haproxy.text(fleet, "0.0.0.0:80", Path("/run/haproxy"))
    return nginx.text(fleet, "0.0.0.0:80") if target == "nginx" else str(envoy.bootstrap(fleet, "0.0.0.0", 80))


@pytest.mark.parametrize("target", ["haproxy", "nginx", "envoy", "kubernetes"])
def test_every_setting_is_carried_left_to_the_servers_or_refused_by_name(target: str) -> None:
    found: dict[str, list[str]] = {"carried": [], "refused": [], "servers": []}
    for name in NAMES:
        before = replace(CARRIED_SETTINGS, **BESIDE.get(name, {}))
        if any(one in REFUSED[target] for one in BESIDE.get(name, {})):
            before = CARRIED_SETTINGS  # refused already
        after = replace(before, **{name: other(name)})
        try:
            made = text(target, after)
        except SettingsError as error:
            assert error.name == name, name
            found["refused"].append(name)
        else:
            found["carried" if made != text(target, before) else "servers"].append(name)
    assert found["refused"] == sorted(REFUSED[target])
    assert set(found["refused"]) <= set(NAMES)
    if target == "kubernetes":
        assert set(found["servers"]) == PODS_OWN - {"workers"}
    else:
        assert found["carried"] == sorted(CARRIED[target])


def test_nginx_lets_streams_through_as_they_come_and_heads_as_large_as_the_servers_take() -> None:
    said = text("nginx", replace(CARRIED_SETTINGS, head_max_bytes=65_536))
    assert "proxy_buffering off;" in said
    assert "proxy_request_buffering off;" in said
    assert "large_client_header_buffers 4 65536;" in said


TOML = """
workers = 4
[lanes.mine]
match = ["/mine*"]
kind = "hard"
processes = 1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "greenlane.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_for_each_front(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target, said in (("haproxy", "backend lane-mine"), ("nginx", "upstream lane-mine"), ("envoy", "lane-mine")):
        assert main(["export", target, "--server", "10.0.0.1:8000", "--listen", "0.0.0.0:80"]) == 0
        assert said in capsys.readouterr().out


def test_manifests_are_yaml_without_references(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "kubernetes", "--application", "shop:app", "--image", "shop:7"]) == 0
    said = capsys.readouterr()
    nodes = list(yaml.safe_load_all(said.out))
    assert [node["kind"] for node in nodes if node["metadata"]["name"] == "app-mine"][:2] == ["ConfigMap", "Deployment"]
    assert "greenlane.toml: |" in said.out
    assert "&id" not in said.out
    assert "docs/scaling.md" in said.err


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["haproxy"], "haproxy needs --server"), (["kubernetes", "--image", "x"], "kubernetes needs --application"),
        (["nginx", "--server", "a:1", "--fronts", "2"], "--fronts does nothing for nginx"),
        (["haproxy", "--server", "a:1", "--fronts", "0"], "--fronts must be"),
        (["kubernetes", "--image", "x", "--application", "a:b", "--pods", "9-2"], "--pods must be"),
        (["vulcand"], "invalid choice"),
    ],
)  # fmt: skip
def test_usage_that_does_nothing_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", *flags])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_an_address_that_is_none_is_a_settings_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "nginx", "--server", "a:1", "--listen", "a b"]) == 2
    assert "expected host:port" in capsys.readouterr().err


# --- The servers of a fleet, and what one front may give each.


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


# --- Two lanes that match the same requests: what a gateway takes, beside what `greenlane serve` takes.


CLUSTER = Cluster("shop", "shop:app", "registry/shop:7", "edge")


def settings(*lanes: tuple[str, dict[str, str]], kind: str = "hard") -> ServeSettings:
    made = [
        Lane(f"l{number}", match=(glob,), headers=headers, kind=kind, processes=1 if kind == "hard" else 0)
        for number, (glob, headers) in enumerate(lanes)
    ]
    return ServeSettings(workers=6, lanes=tuple(made))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("GET /api/*", {}), ("/api/status", {})),  # an exact path counts before a prefix
        (("GET /api/*", {}), ("/api/v1/*", {})),  # a longer prefix
        (("/api/*", {"x-a": "1"}), ("GET /api/*", {})),  # a method before headers
        (("/api/*", {"x-a": "1"}), ("/api/*", {"x-b": "1", "x-c": "2"})),  # more headers
    ],
)
def test_lanes_that_a_gateway_would_confuse_are_refused_and_named(
    first: tuple[str, dict[str, str]], second: tuple[str, dict[str, str]]
) -> None:
    with pytest.raises(SettingsError, match=r"lanes\.l1\.match.*'l0'.*a gateway takes 'l1'"):
        documents(settings(first, second), CLUSTER)
    documents(settings(second, first), CLUSTER)
    documents(settings(first, second, kind="soft"), CLUSTER)  # the same pods, which know the order


@pytest.mark.parametrize(
    ("first", "second", "doubts"),
    [
        (("GET /api*", {}), ("/api/status", {}), 1),
        (("/api/<id>/x", {}), ("/api/*", {}), 1),
        (("/api/<id>", {}), ("/other/*", {}), 0),
        (("GET /api*", {}), ("POST /api*", {}), 0),
        (("/api*", {"x-a": "1"}), ("/api*", {"x-a": "2"}), 0),
        (("/api*", {"x-a": "1*"}), ("/api*", {"x-a": "12"}), 1),
        (("GET /api/status", {}), ("/api/*", {}), 0),
    ],
)
def test_what_a_gateway_may_choose_is_told(
    first: tuple[str, dict[str, str]], second: tuple[str, dict[str, str]], doubts: int
) -> None:
    documents(settings(first, second), CLUSTER)
    said = doubtful(settings(first, second), CLUSTER)
    assert len(said) == doubts
    assert all("'l0'" in one and "'l1'" in one for one in said)
    assert not doubtful(settings(first, second), Cluster("shop", "shop:app", "i", ""))


def test_globs_meet_where_some_text_matches_both() -> None:
    globs = ["/", "/a", "/a*", "/*b", "/?", "/a?", "/a*b", "*", "/a/*"]
    texts = ["".join(some) for length in range(5) for some in itertools.product("/ab", repeat=length)]
    for one, other in itertools.product(globs, repeat=2):
        both = [text for text in texts if all(re.search(Match("", glob).path_regex, text) for glob in (one, other))]
        assert meet(one, other) is bool(both), (one, other, both)
