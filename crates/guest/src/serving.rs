//! What `greenlane serve` decides from what its workers measure; the shells are `greenlane_serve/at_once`, `/apart` and
//! `greenlane/hosts/shedding`.

use greenlane_policy::heavy_route_lane::{HeavyRouteLane as CoreLane, HeavyRouteRule, RouteTotals};
use greenlane_policy::shed::{Shed as CoreShed, ShedRule};
use greenlane_policy::worker_concurrency::{
    ConcurrencyRule, Span, SpanTotals, WorkerConcurrency as CoreConcurrency,
};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// (route, jobs, CPU ns): sums of what has ended.
type Row = (String, u64, u64);
/// (workers' time, CPU, wait for a core) in ns.
type Times = (u64, u64, u64);

/// See `_native.pyi`, which is the manual.
#[pyclass(module = "greenlane._native")]
pub struct WorkerConcurrency(CoreConcurrency);

#[pymethods]
impl WorkerConcurrency {
    #[new]
    #[pyo3(signature = (*, busy, least, most, gap_ns, window_ns, first))]
    fn new(busy: f64, least: u32, most: u32, gap_ns: u64, window_ns: u64, first: u32) -> Self {
        let rule = ConcurrencyRule {
            busy,
            least,
            most,
            gap_ns,
            window_ns,
        };
        Self(CoreConcurrency::new(rule, first))
    }

    fn make_room(&mut self, span: Times, workers: u32, in_progress: u64) {
        self.0.make_room(read_span(span), workers, in_progress);
    }

    #[pyo3(signature = (span, *, jobs, blocked_ns, wakes, late_ns))]
    fn look(&mut self, span: Times, jobs: u64, blocked_ns: u64, wakes: u64, late_ns: u64) -> bool {
        let totals = SpanTotals {
            jobs,
            blocked_ns,
            wakes,
            late_ns,
        };
        self.0.look(read_span(span), totals)
    }

    fn number(&self) -> u32 {
        self.0.number()
    }

    fn why(&self) -> (&'static str, u64, u64) {
        let known = &self.0;
        (known.why().name(), known.cpu_ns(), known.io_ns())
    }
}

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native")]
pub struct HeavyRouteLane(CoreLane);

#[pymethods]
impl HeavyRouteLane {
    #[new]
    #[pyo3(signature = (*, over_ns, learn_after))]
    fn new(over_ns: u64, learn_after: u64) -> Self {
        Self(CoreLane::new(HeavyRouteRule {
            over_ns,
            learn_after,
        }))
    }

    fn look(&mut self, ended: Vec<Row>) -> bool {
        self.0.look(ended.iter().map(read))
    }

    fn routes(&self) -> Vec<(String, u64)> {
        let rows = self.0.routes().into_iter();
        rows.map(|(route, cpu_ns)| (route.to_owned(), cpu_ns))
            .collect()
    }
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct Shed(Mutex<CoreShed>);

#[pymethods]
impl Shed {
    #[new]
    #[pyo3(signature = (*, waited_ns, stands_ns, stands_count, frac, most))]
    fn new(waited_ns: u64, stands_ns: u64, stands_count: u64, frac: f64, most: f64) -> Self {
        Self(Mutex::new(CoreShed::new(ShedRule {
            waited_ns,
            stands_ns,
            stands_count,
            frac,
            most,
        })))
    }

    /// A step of the caller's clock can put an arrival, and its deadline, before the start of our clock.
    fn refuses(&self, arrival_ns: i64, due_ns: i64, now_ns: i64) -> bool {
        let due_ns = due_ns.max(i64::from(due_ns != 0));
        let [arrival_ns, due_ns, now_ns] = [arrival_ns, due_ns, now_ns].map(clamp_ns);
        self.lock().refuses(arrival_ns, due_ns, now_ns)
    }

    fn served(&self, took_ns: i64, span_ns: i64) {
        self.lock().add_served(clamp_ns(took_ns), clamp_ns(span_ns));
    }

    fn p99_ns(&self) -> u64 {
        self.lock().p99_ns()
    }
}

impl Shed {
    /// Never waits for long, and never for the GIL: nothing of Python runs under it.
    fn lock(&self) -> MutexGuard<'_, CoreShed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn clamp_ns(ns: i64) -> u64 {
    ns.max(0).unsigned_abs()
}

fn read(row: &Row) -> (&str, RouteTotals) {
    let (route, jobs, cpu_ns) = row;
    (
        route.as_str(),
        RouteTotals {
            jobs: *jobs,
            cpu_ns: *cpu_ns,
        },
    )
}

fn read_span((worked_ns, ran_ns, starved_ns): Times) -> Span {
    Span {
        worked_ns,
        ran_ns,
        starved_ns,
    }
}
