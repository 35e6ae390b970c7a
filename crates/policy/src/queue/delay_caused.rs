//! Who keeps whom waiting: each moment that somebody waits counts for those who hold a permit then.

/// See the module. The sum over all holders is what all have waited.
#[derive(Debug, Default)]
pub struct DelayCaused {
    each_ns: u64,
    until_ns: u64,
}

impl DelayCaused {
    /// How long others have waited for a holder that has counted since the beginning, ns.
    pub fn each_ns(&self) -> u64 {
        self.each_ns
    }

    /// Until `now_ns` as many have waited, and as many have held. Call it before either changes.
    pub fn until(&mut self, now_ns: u64, waiting: usize, holders: usize) {
        let passed_ns = now_ns.saturating_sub(self.until_ns);
        self.until_ns = self.until_ns.max(now_ns);
        self.each_ns += passed_ns * waiting as u64 / holders.max(1) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_who_wait_for_one_count_twice_and_two_holders_share_one_who_waits() {
        let mut kept = DelayCaused::default();
        kept.until(100, 0, 1);
        kept.until(110, 2, 1);
        assert_eq!(kept.each_ns(), 20);
        kept.until(120, 1, 2);
        assert_eq!(kept.each_ns(), 25);
        kept.until(115, 9, 1);
        assert_eq!(
            kept.each_ns(),
            25,
            "a clock that was read before another one's lock"
        );
    }
}
