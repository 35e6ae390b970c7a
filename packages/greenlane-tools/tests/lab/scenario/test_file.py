"""A scenario file: each key is checked, and what is wrong is named with the file, the key, the value and the rule."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.lab.made import PRICING, run, sample

from greenlane.errors import SettingsError
from greenlane.settings.setting import declarations
from greenlane_tools.lab.run.judged import judged
from greenlane_tools.lab.run.rows import Closed, pooled
from greenlane_tools.lab.scenario import catalogue
from greenlane_tools.lab.scenario.catalogue import TABLES, read
from greenlane_tools.lab.scenario.parts import parsed
from greenlane_tools.lab.scenario.scenario import Scenario

GOOD = """
name = "good"
question = "Does it work?"
expected = "Yes."
bounds = ["probe.p99_ms <= 50 for server in load"]

[[service]]
name = "server"
command = ["{python}", "-m", "http.server", "{port}"]

[[class]]
name = "probe"
rate_per_s = 10

[[phase]]
name = "load"
seconds = 2

[[fault]]
kind = "stall"
at_s = 1

[[contender]]
name = "server"
"""
SHARES = '[[class]]\nname = "other"\ncpu_share_frac = 0.5\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "good.toml"
    path.write_text(text)
    return path


def refused(folder: Path, text: str) -> str:
    path = written(folder, text)
    with pytest.raises(SettingsError) as caught:
        read(path)
    assert str(caught.value).startswith(f"read the scenario {path}: ")
    return str(caught.value).partition(": ")[2]


def test_a_good_file_is_read(tmp_path: Path) -> None:
    found = read(written(tmp_path, GOOD))
    assert (found.name, found.run_seconds(), found.target().name) == ("good", 2.0, "server")
    assert [level.label for level in found.levels()] == ["x1"]


@pytest.mark.parametrize("path", catalogue.known().values(), ids=lambda path: path.stem)
def test_every_scenario_that_ships_breaks_no_rule(path: Path) -> None:
    found = read(path)
    assert found.expectations, "an expectation that a run can check"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('name = "good"', 'name = "bad"', "name='bad', expected the file's own, 'good'"),
        ('name = "good"', 'nam = "good"', "nam='good', expected a known name\nhint: did you mean 'name'?"),
        ('question = "Does it work?"', "", "question=None, expected a sentence\nhint: say it: "),
        ("rate_per_s = 10", "rate_per_sec = 10", "class.probe.rate_per_sec=10, expected a known name\nhint: did you"),
        ("rate_per_s = 10", 'rate_per_s = "10"', "class.probe.rate_per_s='10', expected a number from 0 to 1000000"),
        ("rate_per_s = 10", "rate_per_s = -1", "class.probe.rate_per_s=-1, expected a number from 0"),
        ("rate_per_s = 10", "", "class.probe.rate_per_s='none', expected one of rate_per_s, cpu_share_frac and"),
        ("rate_per_s = 10", "rate_per_s = 10\nmost_connections = 3", "class.probe.most_connections=3, expected 0 unl"),
        ("rate_per_s = 10", 'rate_per_s = 10\narrivals = "poison"', "arrivals='poison', expected one of poisson, c"),
        ("rate_per_s = 10", 'arrivals = "burst"', "class.probe.burst_size=0, expected 1 or more"),
        ("rate_per_s = 10", 'arrivals = "recorded"\nrecorded = "no.glr"', "class.probe.recorded='no.glr', expected"),
        ("rate_per_s = 10", "request_share_frac = 0.4", "class.request_share_frac=0.4, expected shares that add up"),
        ("rate_per_s = 10", "cpu_share_frac = 1.0", "utilisations_frac=[], expected at least one"),
        ("[[phase]]", "[phase]", "phase={'name': 'load', 'seconds': 2}, expected tables [[phase]]"),
        ("[[phase]]", "[[phaze]]", "phaze=[{'name': 'load', 'seconds': 2}], expected a known name\nhint: did you mean"),
        ("at_s = 1", "at_s = 2", "fault.1.at_s=2.0, expected a time within the load, below 2 s"),
        ("at_s = 1", 'at_s = 1\nphase = "laod"', "fault.1.phase='laod', expected one of load\nhint: did you mean"),
        ('kind = "stall"', 'kind = "stal"', "fault.1.kind='stal', expected one of stall, kill, slow, refuse\nhint: d"),
        ("{port}", "{prot}", "service.server='{prot}', expected one of {address}, "[:29]),
        ("{port}", "{unix}", "service.server='{unix}', expected one of"),
        ('"{port}"]', '"{port}"]\nfiles = ["absent.py"]', "service.server.files='absent.py', expected a file or fold"),
        ('"{port}"]', '"{port}"]\nshared = true', "service.shared=True, expected false for at least one"),
        ("for server in load", "for sever in load", "bounds[0]='sever', expected one of server\nhint: did you mean"),
        ("p99_ms <= 50", "p99 <= 50", "bounds[0]='probe.p99 <= 50 for server in load', expected CLASS.FIELD"),
        ('[[contender]]\nname = "server"', '[[contender]]\nname = "a"\narguments = ["x"]', "contender.a.arguments=["),
        ('[[contender]]\nname = "server"', "", "contender=[], expected at least one [[contender]]"),
        ("[[phase]]", '[contrast]\ntools = ["jmeter"]\n[[phase]]', "contrast.tools=['jmeter'], expected a list"),
        ("rate_per_s = 10", "rate_per_s = 10 10", "file="),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, before: str, after: str, said: str) -> None:
    assert before in GOOD
    found = refused(tmp_path, GOOD.replace(before, after, 1))
    assert said in found


def test_shares_of_two_kinds_are_refused(tmp_path: Path) -> None:
    text = GOOD.replace("rate_per_s = 10", "request_share_frac = 1.0") + SHARES
    assert "class.request_share_frac=1.0, expected shares of one kind" in refused(tmp_path, text)


def test_a_file_that_is_not_there_is_a_settings_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expected a file that can be read"):
        read(tmp_path / "none.toml")
    with pytest.raises(SettingsError, match="did you mean 'stall'"):
        catalogue.found("stal")


@pytest.mark.parametrize("kind", [Scenario, *(kind for _, _, kind in TABLES)])
def test_each_key_is_declared_with_its_meaning_and_the_reason_of_its_default(kind: type) -> None:
    for setting in declarations(kind).values():
        assert setting.what.endswith(".") and setting.reason, setting.name
        assert setting.kind not in ("int", "float", "numbers") or setting.high is not None, setting.name


# --- Bounds: what they say, and how they are judged.


@pytest.mark.parametrize(
    "text",
    [
        "bikes.within_deadline_frac >= 0.999 for greenlane",
        "quote.p99_ms <= 1.25 * gevent for greenlane at 0.9",
        "bikes.p99_ms<=1e-3 for gthread-64-0.5ms at x2 in surge by h2load",
        "all.errors == 0 for greenlane",
    ],
)
def test_a_bound_is_read(text: str) -> None:
    found = parsed(text)
    assert found is not None and found.text == text


def test_each_part_is_where_it_belongs() -> None:
    found = parsed("bikes.p99_ms <= 1.5 * gevent for gthread-64 at x2 in surge by ab")
    assert found is not None
    assert (found.endpoint, found.field, found.relation, found.number) == ("bikes", "p99_ms", "<=", 1.5)
    assert (found.rival, found.contender, found.level, found.phase, found.tool) == (
        "gevent",
        "gthread-64",
        "x2",
        "surge",
        "ab",
    )


@pytest.mark.parametrize(
    "text", ["bikes fast", "bikes.p99_ms < 5 for a", "bikes.p90_ms <= 5 for a", "bikes.p99_ms <= 1.2.3 for a", ""]
)
def test_what_is_no_bound_is_none(text: str) -> None:
    assert parsed(text) is None


def verdicts(*bounds: str) -> list[tuple[str, str]]:
    expectations = tuple(one for one in map(parsed, bounds) if one is not None)
    scenario = dataclasses.replace(PRICING, expectations=expectations, utilisations_frac=(0.6, 0.9))
    runs = [run([sample(300.0)], "gevent", 0.9), run([sample(100.0)], "greenlane", 0.6), run([sample(200.0)])]
    tooled = dataclasses.replace(runs[2], contrast=(Closed("ab", 8.0, 9, 0, 1.0, 2.0, 3.0),))
    return [(one.level, one.verdict) for one in judged(scenario, pooled(scenario, [*runs[:2], tooled]))]


def test_a_bound_without_a_level_is_judged_at_each() -> None:
    assert verdicts("bikes.p99_ms <= 150 for greenlane") == [("0.6", "holds"), ("0.9", "fails")]


def test_a_factor_of_a_rival_is_of_the_same_level() -> None:
    assert verdicts("bikes.p99_ms <= 0.7 * gevent for greenlane at 0.9") == [("0.9", "holds")]
    assert verdicts("bikes.p99_ms <= 0.6 * gevent for greenlane at 0.9") == [("0.9", "fails")]
    assert verdicts("bikes.p99_ms <= 0.6 * gevent for greenlane at 0.6") == [("0.6", "not measured")]


def test_a_closed_loop_tool_s_figure_is_judged_where_it_ran_and_who_did_not_take_part_is_not() -> None:
    assert verdicts("bikes.p99_ms <= 3 for greenlane at 0.9 by ab") == [("0.9", "holds")]
    assert verdicts("bikes.p99_ms <= 3 for greenlane at 0.9 by wrk") == []
    assert verdicts("bikes.p99_ms <= 3 for dedicated") == []
