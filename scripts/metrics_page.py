"""Writes docs/metrics.md from the names in greenlane/metrics.py; `--check` only tells whether it is stale.

Exit 0: written, or up to date. Exit 1: stale (the remedy is printed).
"""

# ruff: noqa: E501 (rows of the page's tables)

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from generated import written_or_checked

from greenlane.metrics import (
    ATTRIBUTES,
    COUNTERS,
    LEARNED,
    METER,
    PROCESS,
    RECORDER,
    ROUTES,
    SERVE,
    TURNS,
    UPSTREAMS,
    Metric,
)  # fmt: skip

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"

HEAD = """\
# Metrics

<!-- Written by `make docs` from the names in packages/greenlane/src/greenlane/metrics.py and the text in scripts/metrics_page.py. -->

One list of names for Prometheus and OpenTelemetry. A name, once released, keeps its meaning.

| where | how |
|---|---|
| Prometheus, Greenlane's gunicorn worker | `metrics_path = "/metrics"`; each answer is one process's, labelled `worker` and `pid` |
| Prometheus, `greenlane serve` | `metrics_path`: its front answers for queues, limits and lanes, and with every worker's page, in one |
| Prometheus, `greenlane celery` | `task_metrics = "127.0.0.1:9109"`; orders, and each upstream key by the label `key` |
| Prometheus, any recorded process | `greenlane.export.prometheus.render({}, recorder=Recorder(), labels={...})` on a path of yours |
| OpenTelemetry metrics | `greenlane.export.otel.observe()`; the extra `greenlane[otel]` |
| OpenTelemetry spans | in a process that is recorded, by themselves ([traces](tracing.md)) |

```python
from greenlane._native import Recorder
from greenlane.export.prometheus import CONTENT_TYPE, render


def metrics(environ, start_response):  # a WSGI path of your own
    start_response("200 OK", [("Content-Type", CONTENT_TYPE)])
    return [render({}, recorder=Recorder(), labels={"pid": "7"}).encode()]


assert metrics({}, lambda *ignored: None) == [b""]  # nothing is recorded in this example
```

Behind several workers a scrape reaches any one of them. The labels keep their counters apart; sum over them in the
query. A scrape that should reach all workers needs a port a worker, or OpenTelemetry, where each pushes.

## Which one to scale by

CPU utilisation of a pod is the wrong signal: it is an average, and requests queue for the GIL or the loop in the fullest
worker long before it is high. Three signals say "the process is late" instead:

| signal | PromQL | scale out above |
|---|---|---|
| lag p99: how late what was ready ran | `histogram_quantile(0.99, sum by (le) (rate(greenlane_lag_seconds_bucket[1m])))` | 0.05 s, or a tenth of the latency you promise |
| wait share of the jobs' time | `sum(rate(greenlane_job_time_seconds_total{part="wait"}[1m])) / sum(rate(greenlane_job_latency_seconds_sum[1m]))` | 0.3 |
| busy share of the hottest worker | `max(rate(greenlane_busy_seconds_total[1m]))` | 0.7 |

Lag is what users feel; take it first, with a bound on the replicas, since it grows without one near saturation. The busy
share reacts earlier, is proportional to the load per replica, and is the right one for scaling *in*: below 0.4 in the
hottest worker one replica fewer is safe. If lag is high while no worker is busy, more replicas do not help: something
holds the GIL or the loop for long (`greenlane report` names it). With permits,
`sum(greenlane_heavy_phases_waiting)` is the queue for them. Under OpenTelemetry `greenlane_lag_p99_seconds` and
`greenlane_busy_ratio` are the first and the last as gauges: take their maximum over processes.

KEDA, with Prometheus (HorizontalPodAutoscaler with prometheus-adapter: [scaling](scaling.md#kubernetes) has the rule):

```yaml
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: shop}
spec:
  scaleTargetRef: {name: shop}
  minReplicaCount: 2
  maxReplicaCount: 20
  cooldownPeriod: 300
  triggers:
    - type: prometheus
      metricType: Value          # the number itself, not divided by the replicas
      metadata:
        serverAddress: http://prometheus:9090
        query: histogram_quantile(0.99, sum by (le) (rate(greenlane_lag_seconds_bucket{app="shop"}[1m])))
        threshold: "0.05"
```

## Names

Counters end in `_total`; OpenTelemetry knows them without it. Times are seconds.
"""
COLUMNS = "\n| name | kind | what it is |\n|---|---|---|\n"
SECTIONS = (
    ("Of a process with permits", [*(counter.metric for counter in COUNTERS.values()), *PROCESS.values()]),
    ("Of its routes whose phases are heavy, by the label `route`", [counter.metric for counter in TURNS.values()]),
    ("Of a worker of orders, by key", list(UPSTREAMS.values())),
    ("Of a process that records", list(RECORDER.values())),
    ("Of its routes, by the label `route` (100 at most, then `(other)`)", list(ROUTES.values())),
    ("By OpenTelemetry only", list(METER.values())),
    ("Of `greenlane serve`, told by its front at `metrics_path`", list(SERVE.values())),
    ("Of what is learned, by the labels `route` and `phase`", list(LEARNED.values())),
)
SPANS = """
### Attributes of server and consumer spans

Sums of the thread, greenlet or task that the span began and ended in, while the process records. Children (tasks and
threads that it started) are not in them, and what came before the span began (accept queue, server) is not either; a
recording has both. In the histogram `greenlane_job_part_seconds` the label `http.route` is the span's.

| attribute | what it is |
|---|---|
"""


def page() -> str:
    """The whole page as Markdown."""
    tables = "".join(f"\n### {title}\n{COLUMNS}{''.join(_rows(metrics))}" for title, metrics in SECTIONS)
    return HEAD + tables + SPANS + "".join(f"| `{name}` | {meaning} |\n" for name, meaning in ATTRIBUTES.items())


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` compare it; the exit code."""
    return written_or_checked(PAGE, page, arguments)


def _rows(metrics: Iterable[Metric]) -> Iterable[str]:
    return (f"| `{metric.name}` | {metric.kind.value} | {metric.help} |\n" for metric in dict.fromkeys(metrics))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
