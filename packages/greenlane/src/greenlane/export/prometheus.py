"""Prometheus text exposition (format 0.0.4) of one process: a pure function from numbers to text.

Why not prometheus_client: it would come into every guest process, with a registry that is global and a multi-process
mode that writes files, for the fifty lines that the format takes. A service that has it already serves both: this text
is one more body on one more path.

Behind several workers a scrape reaches any one of them. Each process therefore names itself in its labels (the host
passes `worker` and `pid`): sum over them in the query; without them the counters of two workers look like one that
keeps being reset.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from greenlane.metrics import (
    COUNTERS,
    LEARNED,
    PROCESS,
    RECORDER,
    ROUTES,
    SERVE,
    TURNS,
    UPSTREAMS,
    Histogram,
    Learned,
    Metric,
    Recorder,
    lag_histogram,
    latency_histogram,
    most_used,
)

__all__ = ["CONTENT_TYPE", "merged", "render", "render_metric", "render_serve"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]
Sample = tuple[Metric, Labels, float]


def render(
    counters: Mapping[str, int],
    learned: Iterable[Learned] = (),
    *,
    mode: str = "",
    pressure: tuple[int, int] | None = None,
    turns: Mapping[str, Mapping[str, int]] | None = None,
    recorder: Recorder | None = None,
    upstreams: Iterable[Mapping[str, Any]] = (),
    labels: Labels | None = None,
) -> str:
    """The text of one scrape.

    Args:
        counters: as `Running.counters()` gives them; keys without a metric are left out.
        learned: as `Running.learned()` gives it.
        mode: the mode in force; "" = left out.
        pressure: (heavy phases running, waiting); None = left out.
        turns: as `Running.turns()` gives them, by route; None = left out.
        recorder: of a process that records: `greenlane._native.Recorder()`; one that was never started is left out.
        upstreams: rows of a worker of orders, as its control socket shows them.
        labels: put on every sample; say there which process it is.

    Example:
        A service under `greenlane record` gives the text on a path of its own:

        >>> from greenlane._native import Recorder
        >>> render({}, recorder=Recorder(), labels={"pid": "7"})  # records nothing, here
        ''

    Returns:
        Lines in the order of `greenlane.metrics`, each metric once with its help and type; ends with a newline.

    Cost: about 5 µs a line; no lock, no input or output.
    """
    families: dict[Metric, list[str]] = {}
    for metric, own, value in _samples(counters, learned, mode, pressure):
        line = f"{metric.name}{_labels({**own, **(labels or {})})} {_number(value)}"
        families.setdefault(metric, []).append(line)
    for metric, own, value in _upstreams(upstreams):
        families.setdefault(metric, []).extend(_lines(metric, {**own, **(labels or {})}, value))
    for metric, own, value in _turns(turns or {}):
        families.setdefault(metric, []).extend(_lines(metric, {**own, **(labels or {})}, value))
    for metric, own, told in _recorder_samples(recorder) if recorder is not None else ():
        families.setdefault(metric, []).extend(_lines(metric, {**own, **(labels or {})}, told))
    return "".join(_family(metric, lines) for metric, lines in families.items())


def render_serve(status: Mapping[str, Any], *, labels: Labels | None = None) -> str:
    """The text of how `greenlane serve` stands: the field `serve` of its control socket. {} gives "".

    Args:
        status: lists of rows `groups`, `lanes`, `workers`, `routes`; what is None is left out.
        labels: put on every sample.
    """
    families: dict[Metric, list[str]] = {}
    for metric, own, value in _serve_samples(status):
        if value is not None:
            line = f"{metric.name}{_labels({**own, **(labels or {})})} {_number(value)}"
            families.setdefault(metric, []).append(line)
    return "".join(_family(metric, lines) for metric, lines in families.items())


def render_metric(metric: Metric, labels: Mapping[str, str], told: float | Histogram) -> str:
    """One metric with one set of labels."""
    return _family(metric, list(_lines(metric, dict(labels), told)))


def merged(texts: Iterable[str]) -> str:
    """Several processes' texts as one, each metric with its help and type once. Their labels must tell them apart."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for text in texts:
        name = ""
        for line in text.splitlines():
            if line.startswith("# "):
                name = line.split(" ", 3)[2]
                head = heads.setdefault(name, [])
                head += [line] if line not in head else []
            else:
                samples.setdefault(name, []).append(line)
    return "".join(f"{line}\n" for name, head in heads.items() for line in (*head, *samples.get(name, ())))


def _serve_samples(status: Mapping[str, Any]) -> Iterator[tuple[Metric, Labels, float | None]]:
    yield SERVE["log_lost"], {}, status.get("front", {}).get("log_lost")
    for row in status.get("groups", ()):
        group = {"group": str(row["group"])}
        yield SERVE["at_once"], {**group, "by": str(row["by"])}, row["at_once"]
        for key in ("places", "in_progress", "waiting", "requests", "retries"):
            yield SERVE[key], group, row[key]
        yield SERVE["queue"], group, None if row["queue_ms"] is None else row["queue_ms"] / 1000
        for code, answers in row["answers"].items():
            yield SERVE["answers"], {**group, "code": str(code)}, answers
    for row in status.get("lanes", ()):
        lane = {"lane": str(row["lane"]), "group": str(row["group"])}
        for key in ("places", "in_progress", "waiting"):
            yield SERVE[f"lane_{key}"], lane, row[key]
    workers = status.get("workers", ())
    counts = Counter((str(row["group"]), str(row["state"])) for row in workers)
    for (group_name, state), number in counts.items():
        yield SERVE["workers"], {"group": group_name, "state": state}, number
    for row in workers:
        own = {"group": str(row["group"]), "worker": str(row["worker"]), "pid": str(row["pid"])}
        yield SERVE["worker_in_progress"], own, row["in_progress"]
    for row in status.get("routes", ()):
        yield SERVE["route_cpu"], {"route": str(row["route"]), "lane": str(row["lane"])}, row["cpu_ms"] / 1000


def _samples(
    counters: Mapping[str, int], learned: Iterable[Learned], mode: str, pressure: tuple[int, int] | None
) -> Iterator[Sample]:
    for key, counter in COUNTERS.items():
        if key in counters:
            yield counter.metric, counter.labels, counters[key] * counter.scale
    if mode:
        yield PROCESS["mode"], {"mode": mode}, 1
    if pressure is not None:
        yield PROCESS["running"], {}, pressure[0]
        yield PROCESS["waiting"], {}, pressure[1]
    for row in learned:
        yield from _learned_samples(row)


def _turns(turns: Mapping[str, Mapping[str, int]]) -> Iterator[Sample]:
    for key, counter in TURNS.items():
        for route, counters in turns.items():
            yield counter.metric, {"route": route}, counters[key] * counter.scale


def _upstreams(rows: Iterable[Mapping[str, Any]]) -> Iterator[Sample]:
    for row in rows:
        labels = {"key": str(row["key"])}
        for name in ("running", "parked", "limit", "oldest_s"):
            yield UPSTREAMS[name], labels, row[name]
        yield UPSTREAMS["open"], labels, int(row["breaker"] != "closed")


def _recorder_samples(recorder: Recorder) -> Iterator[tuple[Metric, Labels, float | Histogram]]:
    stats = recorder.stats()
    if not stats["running"]:
        return
    yield RECORDER["on"], {}, int(stats["on"])
    yield RECORDER["lag"], {}, lag_histogram(stats["by_lag"], stats["lag_ns"])
    yield RECORDER["busy"], {}, stats["busy_ns"] / 1e9
    yield RECORDER["in_progress"], {}, stats["in_progress"]
    yield RECORDER["events"], {}, stats["events"]
    yield RECORDER["lost"], {}, stats["lost"]
    yield RECORDER["written"], {}, stats["written_bytes"]
    for route, _jobs, latency_ns, cpu_ns, io_ns, wait_ns, by_latency, _failed in most_used(recorder.live()):
        labels = {"route": route or "(unnamed)"}
        yield ROUTES["latency"], labels, latency_histogram(by_latency, latency_ns)
        for part, ns in (("cpu", cpu_ns), ("io", io_ns), ("wait", wait_ns)):
            yield ROUTES["time"], {**labels, "part": part}, ns / 1e9


def _lines(metric: Metric, labels: Labels, told: float | Histogram) -> Iterator[str]:
    if not isinstance(told, Histogram):
        yield f"{metric.name}{_labels(labels)} {_number(told)}"
        return
    for bound_s, count in told.buckets:
        bound = "+Inf" if math.isinf(bound_s) else f"{bound_s:g}"
        yield f"{metric.name}_bucket{_labels({**labels, 'le': bound})} {count}"
    yield f"{metric.name}_sum{_labels(labels)} {_number(told.sum_s)}"
    yield f"{metric.name}_count{_labels(labels)} {told.count}"


def _learned_samples(row: Learned) -> Iterator[Sample]:
    labels = {"route": row.route, "phase": str(row.phase)}
    yield LEARNED["samples"], labels, row.samples
    yield LEARNED["expected"], labels, row.expected_ms / 1000
    if row.weight != "unknown":
        yield LEARNED["heavy"], labels, int(row.weight == "heavy")
    yield LEARNED["pinned"], labels, int(row.pinned)
    yield LEARNED["released"], labels, row.released_frac
    placement = getattr(row, "placement", "")
    if placement:
        yield LEARNED["placement"], {**labels, "placement": placement}, 1


def _family(metric: Metric, lines: list[str]) -> str:
    head = f"# HELP {metric.name} {_escape(metric.help)}\n# TYPE {metric.name} {metric.kind.value}\n"
    return head + "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quote(value)}"' for name, value in labels.items()) + "}"


def _quote(text: str) -> str:
    # A route may hold anything that a URL rule may, also bytes that were no text: they must not break the scrape.
    return _escape(text).replace('"', '\\"').encode("utf-8", "replace").decode()


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9f}"
