//! Why orders of a key are not begun, and for how long: summed over time, so that an order's own share is a difference.
//!
//! At each moment one thing holds all parked orders of a key back: its breaker, else its limit, else the slots (none is
//! free, or others' turn comes first). Cost: an addition where anything about the key changes.

/// How long orders were held back, ns by what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    pub breaker_ns: u64,
    pub limit_ns: u64,
    pub slots_ns: u64,
}

impl Delays {
    /// What was added since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        Self {
            breaker_ns: self.breaker_ns - before.breaker_ns,
            limit_ns: self.limit_ns - before.limit_ns,
            slots_ns: self.slots_ns - before.slots_ns,
        }
    }
}

/// What holds a key's orders back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum DelayReason {
    Breaker,
    Limit,
    #[default]
    Slots,
}

/// The sums of one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelaySums {
    sums: Delays,
    why: DelayReason,
    since_ns: u64,
}

impl DelaySums {
    /// The sums up to now.
    pub fn read(&mut self, now_ns: u64) -> Delays {
        let ns = now_ns.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(now_ns);
        match self.why {
            DelayReason::Breaker => self.sums.breaker_ns += ns,
            DelayReason::Limit => self.sums.limit_ns += ns,
            DelayReason::Slots => self.sums.slots_ns += ns,
        }
        self.sums
    }

    /// From now on this holds them back.
    pub fn change(&mut self, why: DelayReason, now_ns: u64) {
        if why != self.why {
            self.read(now_ns);
            self.why = why;
        }
    }
}
