//! How long a wait and a hold may last. A permit is advice, never a lock: nothing here is unbounded.

/// The rules for both bounds.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A wait may last this many times the queue's expected CPU.
    pub wait_factor: f64,
    /// ... but at least this, ns: expectations of a few microseconds must not make waiting pointless.
    pub wait_min_ns: u64,
    /// ... and at most this, ns.
    pub wait_max_ns: u64,
    /// A hold may last this many times its expected burst.
    pub hold_factor: f64,
    /// ... but at least this, ns.
    pub hold_min_ns: u64,
}

impl Bounds {
    /// Longest wait for somebody who joins a queue with `expected_ns` of expected CPU (itself included), ns.
    pub fn wait_ns(&self, expected_ns: u64) -> u64 {
        let scaled = (expected_ns as f64 * self.wait_factor) as u64;
        scaled.clamp(self.wait_min_ns.min(self.wait_max_ns), self.wait_max_ns)
    }

    /// Longest hold of a burst expected to take `expected_ns` before one more is admitted, ns.
    pub fn hold_ns(&self, expected_ns: u64) -> u64 {
        ((expected_ns as f64 * self.hold_factor) as u64).max(self.hold_min_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        wait_factor: 4.0,
        wait_min_ns: 50,
        wait_max_ns: 1_000,
        hold_factor: 8.0,
        hold_min_ns: 300,
    };

    #[test]
    fn a_wait_scales_with_the_queue_between_its_ends() {
        assert_eq!(
            [1, 100, 10_000].map(|expected| BOUNDS.wait_ns(expected)),
            [50, 400, 1_000]
        );
    }

    #[test]
    fn a_hold_has_a_floor_and_no_ceiling() {
        assert_eq!(
            [1, 100].map(|expected| BOUNDS.hold_ns(expected)),
            [300, 800]
        );
    }
}
