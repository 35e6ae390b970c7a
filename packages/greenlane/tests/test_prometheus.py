"""The Prometheus text: every counter has a metric, every line parses, nothing in a route breaks it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.lanes.burners import permits, teach

from greenlane import hosts
from greenlane.export.prometheus import CONTENT_TYPE, merged, render, render_serve
from greenlane.lanes.permits import make_permits
from greenlane.metrics import (
    COUNTERS,
    LEARNED,
    METER,
    PROCESS,
    RECORDER,
    ROUTES,
    SERVE,
    TURNS,
    Kind,
    lag_histogram,
    latency_histogram,
    most_used,
    quantile_s,
)
from greenlane.settings import Settings
from tests.where import ROOT

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
    assert set(make_permits(Settings(), mode="off").counters()) <= set(COUNTERS)


def test_every_event_that_the_worker_counts_has_a_metric() -> None:
    folder = Path(hosts.__file__).parent
    noted = {name for file in folder.rglob("*.py") for name in re.findall(r'\.note\("(\w+)"\)', file.read_text())}
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
    metrics = {counter.metric for counter in COUNTERS.values()}
    metrics |= {metric for table in (PROCESS, LEARNED, RECORDER, ROUTES, SERVE, METER) for metric in table.values()}
    metrics |= {counter.metric for counter in TURNS.values()}
    assert len({metric.name for metric in metrics}) == len(metrics)
    for metric in metrics:
        assert re.fullmatch(r"greenlane_[a-z0-9_]+", metric.name)
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


def test_each_routes_turns_say_what_it_gains_and_pays() -> None:
    given = permits()
    teach(given, "GET /quote", runs=3)
    given.open(1, 0, "GET /quote")
    given.close()
    found = samples(render({}, turns=given.turns(), labels={"pid": "7"}))
    assert len(found) == len(TURNS)
    assert found['greenlane_route_turns_total{route="GET /quote",pid="7"}'] == 1
    assert found['greenlane_route_wait_seconds_total{route="GET /quote",pid="7"}'] == 0


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


class Told:
    """A recorder that has seen three jobs of two routes, and four latenesses."""

    def __init__(self, *, running: bool = True, routes: int = 2) -> None:
        self._running = running
        self._routes = routes

    def stats(self) -> dict[str, object]:
        by_lag = [0] * 32
        by_lag[0], by_lag[7], by_lag[31] = 2, 1, 1  # below 1 us, below 128 us, beyond all bounds
        return {
            "running": self._running,
            "on": True,
            "by_lag": by_lag,
            "lag_ns": 3_000_000_000,
            "busy_ns": 1_500_000_000,
            "in_progress": 4,
            "events": 10,
            "lost": 0,
            "written_bytes": 999,
        }

    def live(self) -> list[tuple[str, int, int, int, int, int, list[int], int]]:
        by_latency = [0] * 128
        by_latency[40], by_latency[41] = 1, 1  # at most 1.024 ms, at most 1.218 ms
        row = (2, 2_000_000, 1_000_000, 600_000, 400_000, by_latency, 1)
        return [(f"GET /{n}" if n else "", *row) for n in range(self._routes)]


def test_a_process_that_records_tells_its_lag_its_jobs_and_where_their_time_went() -> None:
    text = render({}, recorder=Told(), labels={"pid": "7"})
    found = samples(text.replace("+Inf", "Inf"))
    assert found['greenlane_lag_seconds_bucket{pid="7",le="6.4e-05"}'] == 2
    assert found['greenlane_lag_seconds_bucket{pid="7",le="0.000128"}'] == 3
    assert found['greenlane_lag_seconds_bucket{pid="7",le="Inf"}'] == found['greenlane_lag_seconds_count{pid="7"}'] == 4
    assert found['greenlane_lag_seconds_sum{pid="7"}'] == 3
    assert found['greenlane_job_latency_seconds_bucket{route="GET /1",pid="7",le="0.001024"}'] == 1
    assert found['greenlane_job_latency_seconds_bucket{route="GET /1",pid="7",le="0.002048"}'] == 2
    assert found['greenlane_job_latency_seconds_count{route="(unnamed)",pid="7"}'] == 2
    assert found['greenlane_job_time_seconds_total{route="GET /1",part="wait",pid="7"}'] == 0.0004
    assert found['greenlane_busy_seconds_total{pid="7"}'] == 1.5
    assert text.count("# TYPE greenlane_job_latency_seconds histogram\n") == 1


def test_a_recorder_that_was_never_started_is_left_out() -> None:
    assert render({}, recorder=Told(running=False)) == ""


def test_at_most_100_routes_are_told_apart_and_none_is_lost() -> None:
    rows = most_used(Told(routes=150).live())
    assert len(rows) == 101
    assert rows[-1][:2] == ("(other)", 100)
    assert sum(row[1] for row in rows) == 300
    assert sum(sum(row[6]) for row in rows) == 300
    assert sum(row[7] for row in rows) == 150


def test_buckets_of_a_histogram_grow_and_end_with_all() -> None:
    for histogram in (latency_histogram([1] * 128, 0), lag_histogram([1] * 32, 0)):
        bounds, counts = zip(*histogram.buckets, strict=True)
        assert list(bounds) == sorted(set(bounds))
        assert list(counts) == sorted(counts)
        assert counts[-1] == histogram.count in (128, 32)


def test_a_quantile_is_a_bound_of_its_bucket() -> None:
    by_lag = [0] * 32
    assert quantile_s(lag_histogram(by_lag, 0), 0.99) == 0
    by_lag[3], by_lag[10] = 99, 1
    assert quantile_s(lag_histogram(by_lag, 0), 0.99) == 0.000064, "the smallest bound"
    assert quantile_s(lag_histogram(by_lag, 0), 1.0) == 0.001024
    by_lag[31] = 1000
    assert quantile_s(lag_histogram(by_lag, 0), 0.99) == 2**23 / 1e6, "the largest finite bound"


def test_the_page_of_metrics_lists_every_name() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    metrics = {counter.metric for counter in COUNTERS.values()}
    metrics |= {metric for table in (PROCESS, LEARNED, RECORDER, ROUTES, SERVE, METER) for metric in table.values()}
    metrics |= {counter.metric for counter in TURNS.values()}
    assert not [metric.name for metric in metrics if f"| `{metric.name}` | {metric.kind.value} | " not in page]
    used = set(re.findall(r"greenlane_[a-z0-9_]+[a-z0-9]", page.partition("## Names")[0]))
    known = {metric.name for metric in metrics} | {"greenlane_busy_hottest"}
    assert not {re.sub("_(bucket|sum|count)$", "", name) for name in used} - known, "queries name metrics that exist"


def test_how_serve_stands_is_told_and_what_is_unknown_left_out() -> None:
    group = {"group": "shared", "at_once": 3, "by": "model", "places": 9, "in_progress": 2, "waiting": 5,
             "requests": 70, "retries": 1, "queue_ms": 250, "answers": {"2xx": 69, "5xx": 1}}  # fmt: skip
    lane = {"lane": "(rest)", "group": "shared", "places": 6, "in_progress": None, "waiting": None}
    worker = {"group": "shared", "worker": "w1", "pid": 7, "state": "serving", "in_progress": 2}
    route = {"route": "GET /hog", "lane": "apart", "cpu_ms": 40.0}
    text = render_serve({"groups": [group], "lanes": [lane], "workers": [worker, worker], "routes": [route]})
    assert 'greenlane_serve_at_once{group="shared",by="model"} 3\n' in text
    assert 'greenlane_serve_queue_mean_seconds{group="shared"} 0.250000000\n' in text
    assert 'greenlane_serve_answers_total{group="shared",code="5xx"} 1\n' in text
    assert 'greenlane_serve_lane_places{lane="(rest)",group="shared"} 6\n' in text
    assert "greenlane_serve_lane_requests_waiting" not in text
    assert 'greenlane_serve_workers{group="shared",state="serving"} 2\n' in text
    assert 'greenlane_serve_route_cpu_seconds{route="GET /hog",lane="apart"} 0.040000000\n' in text
    assert render_serve({}) == ""


def test_texts_of_several_processes_become_one() -> None:
    texts = [render({"jobs": jobs}, mode="on", labels={"pid": str(jobs)}) for jobs in (1, 2)]
    text = merged([*texts, ""])
    assert [line for line in text.splitlines() if line.startswith("greenlane_jobs_total")] == [
        'greenlane_jobs_total{pid="1"} 1', 'greenlane_jobs_total{pid="2"} 2',
    ]  # fmt: skip
    assert text.count("# TYPE greenlane_jobs_total counter\n") == text.count("# HELP greenlane_jobs_total") == 1
    assert text.index("# TYPE greenlane_mode ") > text.index('greenlane_jobs_total{pid="2"}')
