"""Mixes: shares of endpoints that exist, that add up, and that leave nothing behind that speaks of others."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from greenlane_tools.lab.pricing import LATE_S, MIXES, chosen, light_frac, main, parse, pricing
from greenlane_tools.lab.run.pacing import rates_per_s
from greenlane_tools.lab.run.runner import expected_s
from greenlane_tools.lab.scenario import rules
from greenlane_tools.lab.scenario.scenario import Level

KNOWN = {one.name for one in pricing().classes}


@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_is_a_scenario_that_breaks_no_rule(mix: str) -> None:
    rules.check(pricing(mix), mix, "test")


@pytest.mark.parametrize("mix", MIXES)
def test_every_mix_adds_up_to_one_of_endpoints_that_exist(mix: str) -> None:
    assert sum(one.cpu_share_frac for one in pricing(mix).classes) == pytest.approx(1)
    assert set(MIXES[mix]) <= KNOWN


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("utilisation", [0.6, 0.8, 0.9])
def test_the_rates_of_a_mix_use_exactly_the_utilisation(mix: str, utilisation: float) -> None:
    rates = rates_per_s(pricing(mix), dict.fromkeys(KNOWN, 4.0), Level(utilisation))
    assert sum(rate * 4.0 / 1000 for rate in rates.values()) == pytest.approx(utilisation)


def test_light_work_is_at_most_a_tenth_and_a_fifth_of_the_cpu() -> None:
    assert light_frac(pricing("light10")) == pytest.approx(0.10)
    assert light_frac(pricing("light20")) == pytest.approx(0.20)


# --- The demo's command line: what is wrong is named, with its rule, and the exit code is 2.


def run(*argv: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main(argv, out, err), out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("--seconds", "0"), "--seconds='0', expected a number from 1 to 3600"),
        (("--seconds", "nan"), "--seconds='nan', expected a number from 1 to 3600"),
        (("--seconds", "soon"), "--seconds='soon', expected a number from 1 to 3600"),
        (("--utilisation", "0.6,9"), "--utilisation='9', expected a number from 0.05 to 1.5"),
        (("--utilisation", "0.6,0.6"), "--utilisation='0.6,0.6', expected each value once"),
        (("--contenders", "gevent,apache"), "--contenders='gevent,apache', expected some of gevent, gthread-64"),
        (("--contenders", ""), "--contenders='', expected some of"),
        (("--mix", "light10,light20"), "--mix='light10,light20', expected one of light10, light20"),
        (("--repetitions", "1.5"), "--repetitions='1.5', expected a whole number from 1 to 100"),
        (("--seed", "-1"), "--seed='-1', expected a whole number from 0"),
        (("--second", "3"), "arguments="),
        (("--json", "extra"), "arguments="),
        (("--seconds",), "arguments="),
    ],
)
def test_a_wrong_option_is_named_and_exits_2(argv: tuple[str, ...], named: str) -> None:
    code, out, err = run(*argv)
    assert code == 2 and out == ""
    assert err.startswith("run the pricing demo: " + named)
    assert "\nhint: " in err


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_started(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    code, _, err = run("--out", str(taken))
    assert code == 2 and f"--out={str(taken)!r}, expected a folder that can be written" in err


def test_help_is_data_and_exits_0() -> None:
    code, out, err = run("--help")
    assert code == 0 and err == ""
    assert all(flag in out for flag in ("--json", "--seconds", "--utilisation", "--contenders", "--mix", "--out"))


def test_the_default_demo_ends_within_four_minutes() -> None:
    options = parse([])
    assert not isinstance(options, str)
    # So late at most: then the remaining runs are left out.
    assert expected_s(chosen(options), options.contenders) + LATE_S < 240


def test_the_default_is_what_the_issue_asks_for() -> None:
    options = parse([])
    assert not isinstance(options, str)
    assert options.utilisations_frac == (0.6, 0.8, 0.9)
    assert options.contenders == ("gevent", "gthread-64", "gthread-64-0.5ms", "dedicated", "greenlane")
