"""The Prometheus text: every counter has a metric, every line parses, nothing in a route breaks it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from greenlane import hosts
from greenlane.export.prometheus import CONTENT_TYPE, render
from greenlane.lanes import Permits
from greenlane.metrics import COUNTERS, LEARNED, PROCESS, Kind
from greenlane.settings import Settings

SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)*)\})? (-?[0-9.]+)')


@dataclass(frozen=True)
class Row:
    route: str = "GET /quote"
    phase: int = 0
    samples: int = 12
    expected_ms: float = 40.5
    weight: str = "heavy"
    pinned: bool = False
    released_frac: float = 0.25


def samples(text: str) -> dict[str, float]:
    """name{labels} -> value; fails on a line that is neither comment nor sample."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match, line
            found[line.rpartition(" ")[0]] = float(match[3])
    return found


def test_every_counter_becomes_a_sample_in_base_units() -> None:
    text = render(dict.fromkeys(COUNTERS, 2_000_000_000))
    found = samples(text)
    assert len(found) == len(COUNTERS)
    assert found["greenlane_permit_wait_seconds_total"] == 2.0
    assert found["greenlane_jobs_total"] == 2_000_000_000
    assert found['greenlane_permits_lent_total{reason="still"}'] == 2_000_000_000
    assert "greenlane_jobs_total 2000000000\n" in text, "whole numbers stay whole"


def test_every_counter_of_a_process_has_a_metric() -> None:
    assert set(Permits(Settings(), mode="off").counters()) <= set(COUNTERS)


def test_every_event_that_the_worker_counts_has_a_metric() -> None:
    folder = Path(hosts.__file__).parent
    noted = {name for file in folder.glob("*.py") for name in re.findall(r'\.note\("(\w+)"\)', file.read_text())}
    assert noted
    assert noted <= set(COUNTERS)


def test_each_metric_has_its_help_and_type_once_before_its_samples() -> None:
    text = render(dict.fromkeys(COUNTERS, 1), [Row(), Row(phase=1)], mode="on", pressure=(1, 2))
    seen: list[str] = []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            seen.append(line.split()[2])
        elif not line.startswith("#"):
            assert re.split(r"[{ ]", line)[0] == seen[-1]
    assert len(seen) == len(set(seen))
    assert text.count("# HELP ") == len(seen)
    assert text.endswith("\n")


def test_names_follow_the_convention_and_are_unique() -> None:
    metrics = [*{counter.metric for counter in COUNTERS.values()}, *PROCESS.values(), *LEARNED.values()]
    assert len({metric.name for metric in metrics}) == len(metrics)
    for metric in metrics:
        assert re.fullmatch(r"greenlane_[a-z_]+", metric.name)
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
        assert not metric.unit or metric.unit in metric.name
        assert metric.help.endswith(".")


def test_counters_without_a_metric_are_left_out() -> None:
    assert render({"jobs": 1, "something_new": 2}) == render({"jobs": 1})


def test_learned_rows_carry_route_and_phase() -> None:
    found = samples(render({}, [Row()]))
    assert found['greenlane_learned_burst_seconds{route="GET /quote",phase="0"}'] == 0.0405
    assert found['greenlane_learned_heavy{route="GET /quote",phase="0"}'] == 1
    assert found['greenlane_learned_released_ratio{route="GET /quote",phase="0"}'] == 0.25


def test_an_unknown_weight_is_no_sample_and_a_native_phase_is_not_heavy() -> None:
    assert "greenlane_learned_heavy" not in render({}, [Row(weight="unknown")])
    assert samples(render({}, [Row(weight="native")]))['greenlane_learned_heavy{route="GET /quote",phase="0"}'] == 0


def test_a_route_can_hold_anything() -> None:
    text = render({}, [Row(route='GET /"a"\\b\n\udcff\u00e9')])
    assert 'route="GET /\\"a\\"\\\\b\\n?\u00e9"' in text
    samples(text)
    text.encode()


def test_process_labels_are_on_every_sample() -> None:
    text = render({"jobs": 1, "lent_still": 1}, [Row()], mode="observe", pressure=(0, 3), labels={"pid": "12"})
    assert all('pid="12"' in name for name in samples(text))
    assert samples(text)['greenlane_mode{mode="observe",pid="12"}'] == 1
    assert samples(text)['greenlane_heavy_phases_waiting{pid="12"}'] == 3


def test_nothing_known_is_an_empty_scrape() -> None:
    assert render({}) == ""


def test_the_content_type_names_the_formats_version() -> None:
    assert "version=0.0.4" in CONTENT_TYPE
