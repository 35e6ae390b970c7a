//! The last few values of something, and their median: it forgets at once, and one outlier does not move it.

/// How many calls are remembered of each placement.
pub const KEPT: usize = 9;

/// The last values of something.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    values: [u64; KEPT],
    pub len: usize,
    at: usize,
}

impl Ring {
    pub fn push(&mut self, value: u64) {
        self.values[self.at] = value;
        self.at = (self.at + 1) % KEPT;
        self.len = (self.len + 1).min(KEPT);
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The lower one of the two in the middle; 0 without values.
    pub fn median(&self) -> u64 {
        let mut sorted = self.values;
        let sorted = &mut sorted[..self.len];
        sorted.sort_unstable();
        sorted
            .get(self.len.saturating_sub(1) / 2)
            .copied()
            .unwrap_or(0)
    }

    pub fn least(&self) -> u64 {
        self.values[..self.len].iter().copied().min().unwrap_or(0)
    }
}
