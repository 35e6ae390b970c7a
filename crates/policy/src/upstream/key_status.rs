//! What a person sees of the keys.

use super::breaker::BreakerState;
use super::key::{Counts, Key};
use super::rule::Rule;

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyStatus {
    pub key: String,
    pub running: u32,
    pub parked: u64,
    pub parked_bytes: u64,
    /// When its oldest parked order arrived, ns; 0 = none is parked.
    pub oldest_ns: u64,
    pub limit: u32,
    /// `closed`, `open`, `half-open`, `forced-open`.
    pub breaker: &'static str,
    /// Until when it is open, ns; 0 = it is not, or by hand.
    pub open_until_ns: u64,
    /// Usual latency, ns; 0 = unknown.
    pub usual_ns: u64,
    pub failed_frac: f64,
    pub slow_frac: f64,
    pub counts: Counts,
}

impl KeyStatus {
    pub(super) fn of(key: &Key, oldest_ns: u64, general: &Rule) -> Self {
        let (failed_frac, slow_frac) = key.breaker.rates();
        let (breaker, open_until_ns) = match key.breaker.state() {
            _ if key.breaker.is_forced() => ("forced-open", 0),
            BreakerState::Closed => ("closed", 0),
            BreakerState::Open { until_ns } => ("open", until_ns),
            BreakerState::Half { .. } => ("half-open", 0),
        };
        Self {
            key: key.name.to_string(),
            running: key.running,
            parked: key.parked.len() as u64,
            parked_bytes: key.parked_bytes,
            oldest_ns,
            limit: key.limit(key.rule(general)),
            breaker,
            open_until_ns,
            usual_ns: key.limiter.usual_ns(),
            failed_frac,
            slow_frac,
            counts: key.counts,
        }
    }
}

/// All keys together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    pub slots: u32,
    pub running: u32,
    pub parked: u64,
    pub parked_bytes: u64,
    pub keys: u64,
    /// Slots that only keys below their guaranteed minimum may take.
    pub reserved: u32,
    /// Most keys are slower than usual, or their breakers open: the reason is probably ours.
    pub common: bool,
}
