//! What a run gives, and its JSON.

use super::tally::{Batch, Cause, Counts, OfRoute, FRACS};
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
    /// From the end of the first counted request to that of the last.
    pub counted_seconds: f64,
    /// Counted requests that have ended, and those that never did.
    pub jobs: u64,
    pub unfinished: u64,
    /// Requests in progress at the end: many more than a few mean that the load is more than can be served.
    pub in_progress: u64,
    pub events: u64,
    /// By process: share of the time in which it computes under its GIL, and requests done.
    pub processes: Vec<(f64, u64)>,
    /// Requests at once that the front gives each process; 0 = it does not decide.
    pub at_once: u32,
    pub routes: Vec<RouteReport>,
}

impl Report {
    /// Mean share of the time in which a process computes.
    pub fn cpu_frac(&self) -> f64 {
        self.processes.iter().map(|(busy, _)| busy).sum::<f64>() / self.processes.len() as f64
    }

    /// As `greenlane.simulation/1`.
    pub fn to_json(&self) -> Value {
        let process =
            |&(busy_frac, done): &(f64, u64)| json!({"cpu_frac": busy_frac, "done": done});
        json!({
            "schema": "greenlane.simulation/1",
            "seconds": self.seconds,
            "counted_seconds": self.counted_seconds,
            "jobs": self.jobs,
            "unfinished": self.unfinished,
            "in_progress": self.in_progress,
            "events": self.events,
            "cpu_frac": self.cpu_frac(),
            "at_once": self.at_once,
            "processes": self.processes.iter().map(process).collect::<Vec<_>>(),
            "routes": self.routes.iter().map(route).collect::<Vec<_>>(),
        })
    }
}

fn route(one: &RouteReport) -> Value {
    let tally = &one.tally;
    let ended = (tally.counts.done + tally.counts.refused + tally.counts.failed).max(1) as f64;
    let waits: serde_json::Map<String, Value> = Cause::ALL
        .iter()
        .map(|&(cause, name)| {
            let mean_ms = tally.waits_ns[cause as usize] as f64 / 1e6 / ended;
            (name.to_owned(), json!(mean_ms))
        })
        .collect();
    let mut object = counts(&tally.counts);
    object["route"] = json!(one.route);
    object["mean_ms"] = json!(tally.latency.mean_ns() / 1e6);
    object["max_ms"] = json!(tally.latency.max_ns() as f64 / 1e6);
    object["cpu_ms"] = json!(tally.cpu_ns as f64 / 1e6 / ended);
    object["waits_ms"] = Value::Object(waits);
    object["latency_ns"] = json!(tally.latency.buckets().collect::<Vec<_>>());
    object["batches"] = json!(tally.batches.iter().map(batch).collect::<Vec<_>>());
    object
}

fn counts(counts: &Counts) -> Value {
    json!({
        "done": counts.done,
        "late": counts.late,
        "refused": counts.refused,
        "failed": counts.failed,
    })
}

fn batch(one: &Batch) -> Value {
    const NAMES: [&str; FRACS.len()] = ["p50_ms", "p95_ms", "p99_ms", "p999_ms"];
    let mut object = counts(&one.counts);
    object["mean_ms"] = json!(one.mean_ns / 1e6);
    for (name, ns) in NAMES.into_iter().zip(one.quantiles_ns) {
        object[name] = json!(ns as f64 / 1e6);
    }
    object
}
