//! From which burst on a phase is heavy, learned from all phases of the process; one number for all who judge by it.

use greenlane_policy::heavy_threshold::HeavyThreshold;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// See the module.
pub struct Heavy {
    learned: Mutex<HeavyThreshold>,
    limit_ns: Arc<AtomicU64>,
}

impl Heavy {
    pub fn new(least_ns: u64) -> Self {
        Self {
            learned: Mutex::new(HeavyThreshold::new(least_ns)),
            limit_ns: Arc::new(AtomicU64::new(least_ns)),
        }
    }

    /// A longer burst is heavy, ns.
    pub fn ns(&self) -> u64 {
        self.limit_ns.load(Ordering::Relaxed)
    }

    /// The same, for the gate to look at.
    pub fn limit_ns(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.limit_ns)
    }

    /// Takes in the burst of a phase that computes with the GIL. Never waits: a burst that comes while another thread is
    /// here is left out, and so are all in a child that was forked just then.
    pub fn update(&self, burst_ns: u64) {
        if let Ok(mut learned) = self.learned.try_lock() {
            let limit_ns = learned.update(burst_ns);
            self.limit_ns.store(limit_ns, Ordering::Relaxed);
        }
    }
}
