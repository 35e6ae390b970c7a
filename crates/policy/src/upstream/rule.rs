//! What one upstream key may do: settings, in nanoseconds, bytes, calls and shares.

/// See each field. A key has the general rule unless it was given one of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Calls in progress at once; 0 = adaptive.
    pub limit: u32,
    /// Where the adaptive limit begins.
    pub first_limit: u32,
    /// Calls that the key may always have in progress while one slot is free; the adaptive limit never falls below it.
    pub least: u32,
    /// Largest share of the slots for a key that is alone in wanting many; 1 = all of them.
    pub most_frac: f64,
    /// Slot time of this key for each nanosecond of the others, where slots are scarce; at least 1.
    pub weight: u32,

    /// Orders of the key that may be parked.
    pub parked_most: u64,
    /// Bytes of the key that may be parked; one order is always kept.
    pub parked_most_bytes: u64,
    /// How long an order may be parked, ns; 0 = for ever.
    pub parked_most_ns: u64,
    /// Orders of all keys that may be parked. Only of the general rule.
    pub all_parked_most: u64,
    /// Bytes of all keys that may be parked; one order is always kept. Only of the general rule.
    pub all_parked_most_bytes: u64,

    /// Share of failed calls in the window that opens the breaker; 0 = never.
    pub failure_rate: f64,
    /// Share of slow calls in the window that opens the breaker; 0 = never.
    pub slow_call_rate: f64,
    /// A call is slow from this many times the key's own usual latency on.
    pub slow_call_x: f64,
    /// A call is slow from here on, ns; 0 = by `slow_call_x`.
    pub slow_call_ns: u64,
    /// Last calls that the breaker judges by, 1 to 64.
    pub window: u32,
    /// Fewer calls than this in the window open nothing.
    pub least_calls: u32,
    /// Calls that an open breaker lets through once its time is over.
    pub probes: u32,
    /// How long the breaker is open the first time, ns.
    pub open_ns: u64,
    /// What each further time is multiplied by.
    pub open_growth: f64,
    /// Longest time that it is open, ns.
    pub open_most_ns: u64,
    /// Time limit of a probe, ns; grows with the open time. 0 = none.
    pub probe_limit_ns: u64,

    /// Of this process's own, for what it does by chance; 0 = nothing.
    pub seed: u64,

    /// A key without orders is forgotten after this time, ns. Only of the general rule.
    pub forget_ns: u64,
    /// Keys without orders that are remembered at most. Only of the general rule.
    pub keys_most: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Default for Rule {
    fn default() -> Self {
        Self {
            limit: 0,
            first_limit: 20,
            least: 1,
            most_frac: 0.5,
            weight: 1,
            parked_most: 1_000,
            parked_most_bytes: 16 << 20,
            parked_most_ns: 600 * SECOND_NS,
            all_parked_most: 4_000,
            all_parked_most_bytes: 64 << 20,
            failure_rate: 0.5,
            slow_call_rate: 0.8,
            slow_call_x: 5.0,
            slow_call_ns: 0,
            window: 20,
            least_calls: 10,
            probes: 3,
            open_ns: 5 * SECOND_NS,
            open_growth: 2.0,
            open_most_ns: 60 * SECOND_NS,
            probe_limit_ns: 5 * SECOND_NS,
            seed: 0,
            forget_ns: 86_400 * SECOND_NS,
            keys_most: 10_000,
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The upstream did it.
    Ok,
    /// The upstream said no or broke off.
    Failed,
    /// It did not answer in time.
    TimedOut,
    /// It said that it has too much to do (429, 503, RESOURCE_EXHAUSTED).
    Refused,
    /// Says nothing about the upstream: the call was given up here, or never left.
    Cancelled,
}

impl Outcome {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Ok,
        Self::Failed,
        Self::TimedOut,
        Self::Refused,
        Self::Cancelled,
    ];
}
