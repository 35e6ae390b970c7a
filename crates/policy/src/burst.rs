//! The expected CPU burst of one (route, phase): a small histogram that forgets.
//!
//! Logarithmic buckets, two an octave from 62.5 us to about 4 s; a sample adds [`SAMPLE`] to its bucket. When the total
//! reaches [`WINDOW`] samples every bucket is halved, so that a sample's weight falls by half with each 32 to 64
//! successors. 2, 4 and 8 ms are exactly edges, so that the default decision (4 ms) has no bucket error.
//!
//! Why a histogram and no moving average: a phase that is light on a cache hit and heavy on a miss has a mean that
//! describes neither. Why no t-digest or DDSketch: 34 counters are enough to say "more than a tenth is over 4 ms", cost
//! 30 ns a sample, and merge by addition.

/// Number of buckets; the last one has no upper edge.
pub const BUCKETS: usize = 34;
/// What one sample adds to its bucket: fixed point, so that halving does not lose single samples.
pub const SAMPLE: u32 = 256;
/// Samples (in weight) at which everything is halved. Arbitrary: 64 reacts within about 7 slow requests at quantile 0.9.
pub const WINDOW: u32 = 64;

/// Upper edge of the first bucket, ns.
const FIRST_EDGE_NS: u64 = 62_500;

/// Upper edge of bucket `index` in ns (inclusive); `u64::MAX` for the last. Odd edges use 181/128 for the root of two.
pub fn edge_ns(index: usize) -> u64 {
    if index >= BUCKETS - 1 {
        return u64::MAX;
    }
    let octave = FIRST_EDGE_NS << (index / 2);
    if index % 2 == 0 {
        octave
    } else {
        octave * 181 / 128
    }
}

/// The bucket that a burst of `ns` falls into.
pub fn bucket_of(ns: u64) -> usize {
    (0..BUCKETS - 1)
        .find(|&index| ns <= edge_ns(index))
        .unwrap_or(BUCKETS - 1)
}

/// Histogram of recent bursts with their decayed mean.
#[derive(Clone, Debug, PartialEq)]
pub struct BurstSketch {
    /// Weight per bucket, [`SAMPLE`] for each sample not yet halved.
    counts: [u32; BUCKETS],
    total: u32,
    /// Decayed sum of bursts times weight, ns.
    weighted_ns: u64,
    /// Every sample ever seen; never forgotten.
    samples: u64,
}

impl Default for BurstSketch {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            total: 0,
            weighted_ns: 0,
            samples: 0,
        }
    }
}

impl BurstSketch {
    /// Takes one burst in. Cost: about 30 ns, no allocation.
    pub fn update(&mut self, burst_ns: u64) {
        let burst_ns = burst_ns.min(3_600_000_000_000);
        self.counts[bucket_of(burst_ns)] += SAMPLE;
        self.total += SAMPLE;
        self.weighted_ns += burst_ns * u64::from(SAMPLE);
        self.samples += 1;
        if self.total >= WINDOW * SAMPLE {
            self.forget(1);
        }
    }

    /// Divides every weight by two to the power of `halvings`: older samples count less against those to come.
    pub fn forget(&mut self, halvings: u32) {
        let before = u64::from(self.total.max(1));
        for count in &mut self.counts {
            *count >>= halvings;
        }
        self.total = self.counts.iter().sum();
        self.weighted_ns =
            (u128::from(self.weighted_ns) * u128::from(self.total) / u128::from(before)) as u64;
    }

    /// Upper edge (ns) of the bucket in which the share `quantile` of the weight is reached; 0 without samples.
    ///
    /// An upper bound, at most 42 % above the true value. Bursts beyond the last edge report the last finite one.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let wanted = (f64::from(self.total) * quantile).ceil();
        let mut seen = 0.0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += f64::from(count);
            if self.total > 0 && seen >= wanted {
                return edge_ns(index.min(BUCKETS - 2));
            }
        }
        0
    }

    /// Decayed mean burst, ns; 0 without samples.
    pub fn mean_ns(&self) -> u64 {
        self.weighted_ns / u64::from(self.total.max(1))
    }

    /// Mean of the bursts over `limit_ns` (an edge), ns; 0 without such. What the others took is known to a bucket's width.
    pub fn mean_over_ns(&self, limit_ns: u64) -> u64 {
        match self.over(limit_ns) {
            (_, 0) => 0,
            (over_ns, over) => (over_ns / over).max(limit_ns),
        }
    }

    /// The part of the CPU that is spent in bursts over `limit_ns` (an edge), 0 to 1.
    pub fn part_over(&self, limit_ns: u64) -> f64 {
        match self.over(limit_ns) {
            (_, 0) => 0.0,
            (over_ns, _) => over_ns as f64 / self.weighted_ns.max(1) as f64,
        }
    }

    /// Weighted sum of the bursts over `limit_ns`, ns, and their weight.
    fn over(&self, limit_ns: u64) -> (u64, u64) {
        let (mut under_ns, mut over) = (0, 0);
        for (index, &count) in self.counts.iter().enumerate() {
            if edge_ns(index) <= limit_ns {
                under_ns += u64::from(count) * (edge_ns(index) / 8 * 7);
            } else {
                over += u64::from(count);
            }
        }
        (self.weighted_ns.saturating_sub(under_ns), over)
    }

    /// Samples ever seen.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Weight per bucket.
    pub fn weights(&self) -> Vec<u32> {
        self.counts.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_limit_is_an_edge() {
        assert!((0..BUCKETS).any(|index| edge_ns(index) == 4_000_000));
    }

    #[test]
    fn edges_rise() {
        assert!((1..BUCKETS).all(|index| edge_ns(index) > edge_ns(index - 1)));
    }

    #[test]
    fn one_slow_in_five_shows_at_the_ninth_decile_and_not_at_the_median() {
        let mut sketch = BurstSketch::default();
        for index in 0..40 {
            sketch.update(if index % 5 == 0 { 40_000_000 } else { 200_000 });
        }
        assert!(sketch.quantile_ns(0.9) >= 40_000_000);
        assert!(sketch.quantile_ns(0.5) <= 260_000);
    }

    #[test]
    fn what_is_long_is_told_apart_from_what_is_short() {
        let mut sketch = BurstSketch::default();
        for index in 0..60 {
            sketch.update(if index % 6 == 0 { 20_000_000 } else { 300_000 });
        }
        let long_ns = sketch.mean_over_ns(4_000_000);
        assert!((19_500_000..=20_500_000).contains(&long_ns), "{long_ns}");
        assert_eq!(sketch.mean_over_ns(32_000_000), 0);
    }

    #[test]
    fn total_weight_stays_below_the_window() {
        let mut sketch = BurstSketch::default();
        for index in 0..10_000 {
            sketch.update(index * 1_000);
        }
        assert!(sketch.total < WINDOW * SAMPLE);
        assert_eq!(sketch.samples(), 10_000);
    }
}
