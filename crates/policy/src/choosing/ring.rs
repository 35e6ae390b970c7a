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
        self.ranked(2)
    }

    /// The value that a quarter of them, the lower one, reaches: of three the least, of nine the third; 0 without any.
    pub fn quartile(&self) -> u64 {
        self.ranked(4)
    }

    /// Of three and more without the least one: a function's first call imports and loads. 0 without values.
    pub fn mean(&self) -> u64 {
        let sum: u64 = self.values[..self.len].iter().sum();
        if self.len < 3 {
            return sum / (self.len as u64).max(1);
        }
        (sum - self.least()) / (self.len as u64 - 1)
    }

    pub fn least(&self) -> u64 {
        self.values[..self.len].iter().copied().min().unwrap_or(0)
    }

    /// The value at the end of the lowest 1/`parts`.
    fn ranked(&self, parts: usize) -> u64 {
        let mut sorted = self.values;
        let sorted = &mut sorted[..self.len];
        sorted.sort_unstable();
        let at = self.len.saturating_sub(1) / parts;
        sorted.get(at).copied().unwrap_or(0)
    }
}
