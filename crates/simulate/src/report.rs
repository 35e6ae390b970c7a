//! What a run gives, and its JSON.

use super::tally::{Cause, OfRoute};
use serde_json::{json, Value};

/// One route.
#[derive(Clone, Debug)]
pub struct RouteReport {
    pub route: String,
    pub tally: OfRoute,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Report {
    /// Simulated time.
    pub seconds: f64,
    /// Counted requests that have ended, and those that never did.
    pub jobs: u64,
    pub unfinished: u64,
    /// Requests in progress at the end: many more than a few mean that the load is more than can be served.
    pub in_progress: u64,
    /// By process: share of the time in which it computes under its GIL.
    pub busy_frac: Vec<f64>,
    pub routes: Vec<RouteReport>,
}

impl Report {
    /// Mean share of the time in which a process computes.
    pub fn cpu_frac(&self) -> f64 {
        self.busy_frac.iter().sum::<f64>() / self.busy_frac.len() as f64
    }

    /// As `greenlane.simulation/1`.
    pub fn to_json(&self) -> Value {
        json!({
            "schema": "greenlane.simulation/1",
            "seconds": self.seconds,
            "unfinished": self.unfinished,
            "in_progress": self.in_progress,
            "cpu_frac": self.cpu_frac(),
            "process_cpu_frac": self.busy_frac,
            "routes": self.routes.iter().map(route).collect::<Vec<_>>(),
        })
    }
}

fn route(one: &RouteReport) -> Value {
    let tally = &one.tally;
    let ended = (tally.counts.done + tally.counts.refused).max(1) as f64;
    let waits: serde_json::Map<String, Value> = Cause::ALL
        .iter()
        .map(|&(cause, name)| {
            let mean_ms = tally.waits_ns[cause as usize] as f64 / 1e6 / ended;
            (name.to_owned(), json!(mean_ms))
        })
        .collect();
    json!({
        "route": one.route,
        "done": tally.counts.done,
        "late": tally.counts.late,
        "refused": tally.counts.refused,
        "mean_ms": tally.latency.mean_ns() / 1e6,
        "max_ms": tally.latency.max_ns() as f64 / 1e6,
        "cpu_ms": tally.cpu_ns as f64 / 1e6 / ended,
        "waits_ms": waits,
        "latency_ns": tally.latency.buckets().collect::<Vec<_>>(),
    })
}
