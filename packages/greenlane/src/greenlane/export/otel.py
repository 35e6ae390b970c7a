"""OpenTelemetry: what a process knows as metrics of a meter, and where a job's time went as attributes of its span.

    from greenlane.export import otel

    provider.add_span_processor(otel.SpanTimes())  # before the exporters' processors
    otel.observe()

A process that is recorded adds the processor to each provider of the SDK by itself; the recording then knows each job's
trace, and `greenlane report` shows its id beside what made the job wait.

The OpenTelemetry API is the extra `greenlane[otel]`; nothing of it is imported before one of the two is called. Names
are those of `greenlane.metrics`; a Prometheus exporter of OpenTelemetry adds `_total` to the counters again.

Why the processor replaces each server span's `end`: a processor hears of a span's end when its attributes are final.

Cost: 4 us a server span while the process records, 0.3 us while it does not; nothing on other spans but a comparison.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from greenlane._native import Recorder
from greenlane.errors import HostError
from greenlane.metrics import COUNTERS, METER, PROCESS, RECORDER, Counter, Metric, lag_histogram, quantile_s

__all__ = ["SpanTimes", "observe"]

_UNITS: Final = {"seconds": "s", "ratio": "1"}
#: Kinds of spans that are a job.
_JOBS: Final = ("SERVER", "CONSUMER")
_NAME: Final = "greenlane"
#: The lower half of a trace's number.
_LOW: Final = (1 << 64) - 1


class SpanTimes:
    """A span processor: server and consumer spans get the attributes of `greenlane.metrics.ATTRIBUTES`.

    They are sums of the thread, greenlet or task that the span began in, and left out if it ends in another one;
    children are not in them. A span of another kind, or while nothing is recorded, stays as it is.
    """

    def __init__(self, meter_provider: Any = None) -> None:
        """`meter_provider`: also feeds the histogram of job parts there; None = the global one."""
        metric = METER["job_time"]
        meter = _meter(meter_provider)
        self._parts = meter.create_histogram(metric.name, unit=_UNITS[metric.unit], description=metric.help)
        recorder = Recorder()
        self._unit_totals, self._traced = recorder.unit_totals, recorder.traced

    def on_start(self, span: Any, parent_context: object = None) -> None:
        """Look at the clocks, and be there when it ends."""
        if span.kind.name not in _JOBS:
            return
        before = self._unit_totals()
        if not before[0]:
            return
        context = span.get_span_context()
        self._traced(context.trace_id >> 64, context.trace_id & _LOW, context.span_id)
        # Of several processors on one span the last one writes: no span is written twice.
        original = getattr(span.end, "original", span.end)

        def end(*args: Any, **kwargs: Any) -> Any:
            if span.is_recording():
                self._annotate(span, before, self._unit_totals())
            return original(*args, **kwargs)

        end.original = original  # type: ignore[attr-defined]
        span.end = end

    def on_end(self, span: object) -> None:
        """Do nothing: the attributes are final."""

    def shutdown(self) -> None:
        """Do nothing."""

    def force_flush(self, timeout_millis: int = 0) -> bool:
        """Do nothing, in time."""
        return True

    def _on_ending(self, span: object) -> None:
        """Do nothing: the attributes are final here, too. The SDK calls it without asking whether it is there."""

    def _annotate(
        self,
        span: Any,
        before: tuple[int, int, int, dict[str, int]],
        after: tuple[int, int, int, dict[str, int]],
    ) -> None:
        if after[0] != before[0]:
            return
        cpu_ns, io_ns = after[1] - before[1], after[2] - before[2]
        waits = {kind: ns - before[3][kind] for kind, ns in after[3].items() if ns > before[3][kind]}
        wait_ns = sum(waits.values())
        told = {"greenlane.cpu_ms": cpu_ns, "greenlane.io_ms": io_ns, "greenlane.wait_ms": wait_ns}
        told |= {f"greenlane.wait.{kind}_ms": ns for kind, ns in waits.items()}
        span.set_attributes({name: max(ns, 0) / 1e6 for name, ns in told.items()})
        route = (getattr(span, "attributes", None) or {}).get("http.route")
        labels = {"http.route": route} if route else {}
        for part, ns in (("cpu", cpu_ns), ("io", io_ns), ("wait", wait_ns)):
            self._parts.record(max(ns, 0) / 1e9, {**labels, "part": part})


def observe(
    counters: Callable[[], Mapping[str, int]] | None = None,
    pressure: Callable[[], tuple[int, int]] | None = None,
    *,
    meter_provider: Any = None,
) -> None:
    """Let a meter ask this process for its metrics whenever it collects. Once a process.

    Args:
        counters: `Running.counters`, of a process with permits; None = none.
        pressure: `Running.pressure`, likewise.
        meter_provider: None = the global one.

    Raises:
        HostError: the OpenTelemetry API is not installed.
    """
    from_api = _Api(_meter(meter_provider))
    if counters is not None:
        by_metric: dict[Metric, dict[str, Counter]] = {}
        for key, counter in COUNTERS.items():
            by_metric.setdefault(counter.metric, {})[key] = counter
        for metric, keys in by_metric.items():
            from_api.counter(metric, functools.partial(_read_counters, counters, keys))
    if pressure is not None:
        from_api.gauge(PROCESS["running"], lambda: [(pressure()[0], {})])
        from_api.gauge(PROCESS["waiting"], lambda: [(pressure()[1], {})])
    recorder = Recorder()
    for key, stat, scale in _STATS:
        make = from_api.counter if RECORDER[key].kind.value == "counter" else from_api.gauge
        make(RECORDER[key], functools.partial(_stat, recorder, stat, scale))
    from_api.gauge(METER["lag_p99"], _LagSince(recorder))
    from_api.gauge(METER["busy"], _BusySince(recorder))


#: Metric of the recorder, the field of its `stats`, and what one of it is in units of the metric.
_STATS: Final = (
    ("on", "on", 1),
    ("busy", "busy_ns", 1e-9),
    ("in_progress", "in_progress", 1),
    ("events", "events", 1),
    ("lost", "lost", 1),
    ("written", "written_bytes", 1),
)

Sample = tuple[float, Mapping[str, str]]


class _LagSince:
    """The lag's p99 over what came since it was last asked."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._before = [0] * len(recorder.stats()["by_lag"])

    def __call__(self) -> list[Sample]:
        stats = self._recorder.stats()
        before, self._before = self._before, stats["by_lag"]
        if not stats["running"]:
            return []
        new = [now - then for now, then in zip(self._before, before, strict=True)]
        return [(quantile_s(lag_histogram(new, 0), 0.99), {})]


class _BusySince:
    """The share of the time since it was last asked in which threads that run jobs used a core."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._before = time.monotonic_ns(), recorder.stats()["busy_ns"]

    def __call__(self) -> list[Sample]:
        stats = self._recorder.stats()
        (then_ns, busy_then_ns), self._before = self._before, (time.monotonic_ns(), stats["busy_ns"])
        span_ns = self._before[0] - then_ns
        return [((stats["busy_ns"] - busy_then_ns) / span_ns, {})] if stats["running"] and span_ns > 0 else []


class _Api:
    """Instruments that are asked, of a meter."""

    def __init__(self, meter: Any) -> None:
        from opentelemetry.metrics import Observation

        self._meter = meter
        self._observation = Observation

    def counter(self, metric: Metric, ask: Callable[[], Iterable[Sample]]) -> None:
        self._make(self._meter.create_observable_counter, metric, ask)

    def gauge(self, metric: Metric, ask: Callable[[], Iterable[Sample]]) -> None:
        self._make(self._meter.create_observable_gauge, metric, ask)

    def _make(self, make: Callable[..., object], metric: Metric, ask: Callable[[], Iterable[Sample]]) -> None:
        def asked(_options: object) -> list[Any]:
            return [self._observation(value, dict(labels)) for value, labels in ask()]

        name = metric.name.removesuffix("_total")
        make(name, callbacks=[asked], unit=_UNITS.get(metric.unit, ""), description=metric.help)


def _stat(recorder: Recorder, name: str, scale: float) -> list[Sample]:
    stats = recorder.stats()
    return [(stats[name] * scale, {})] if stats["running"] else []


def _read_counters(ask: Callable[[], Mapping[str, int]], keys: Mapping[str, Counter]) -> list[Sample]:
    counted = ask()
    return [(counted[key] * counter.scale, counter.labels) for key, counter in keys.items() if key in counted]


def _meter(provider: Any) -> Any:
    try:
        from opentelemetry import metrics
    except ImportError:
        raise HostError(
            "export to OpenTelemetry",
            name="opentelemetry",
            value=None,
            rule="its API installed",
            hint="pip install 'opentelemetry-api>=1.30'",
        ) from None
    return (provider or metrics).get_meter(_NAME)
