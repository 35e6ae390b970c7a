//! Latencies in logarithmic buckets, 128 an octave: what is read off is within 0.4 %.

/// Buckets per octave.
const PARTS: u64 = 128;
const PARTS_BITS: u32 = 7;
/// Values are counted in units of 64 ns.
const UNIT_BITS: u32 = 6;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Histogram {
    /// Takes one value in.
    pub fn record(&mut self, ns: u64) {
        let index = bucket_of(ns);
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Values taken in.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, ns, exact; 0 without any.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.count.max(1) as f64
    }

    /// The largest, ns, exact.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The value that the share `frac` of all does not exceed, ns; 0 without any.
    pub fn quantile_ns(&self, frac: f64) -> u64 {
        let wanted = ((self.count as f64 * frac).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle_ns(index).min(self.max_ns);
            }
        }
        0
    }

    /// (middle of the bucket in ns, count) of the buckets that are not empty.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let filled = self.counts.iter().enumerate();
        filled
            .filter(|(_, &count)| count > 0)
            .map(|(index, &count)| (middle_ns(index), count))
    }
}

fn bucket_of(ns: u64) -> usize {
    let units = ns >> UNIT_BITS;
    if units < PARTS {
        return units as usize;
    }
    let shift = 63 - units.leading_zeros() - PARTS_BITS;
    (u64::from(shift) * PARTS + (units >> shift)) as usize
}

fn middle_ns(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * PARTS {
        return (index << UNIT_BITS) + (1 << (UNIT_BITS - 1));
    }
    let shift = index / PARTS - 1;
    let low = index - shift * PARTS;
    (low << (shift + u64::from(UNIT_BITS))) + (1 << (shift + u64::from(UNIT_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_its_bucket_is_within_half_a_percent_of_a_value() {
        let mut ns = 20_000u64;
        while ns < 1 << 50 {
            let middle = middle_ns(bucket_of(ns)) as f64;
            assert!((middle / ns as f64 - 1.0).abs() < 0.004, "{ns} {middle}");
            ns += ns / 97;
        }
    }

    #[test]
    fn buckets_rise_without_a_gap() {
        let mut before = 0;
        for units in 0..1 << 14 {
            let bucket = bucket_of(units << UNIT_BITS);
            assert!(bucket == before || bucket == before + 1, "{units}");
            before = bucket;
        }
    }

    #[test]
    fn quantiles_and_mean() {
        let mut low = Histogram::default();
        (1..=1000u64).for_each(|ms| low.record(ms * 1_000_000));
        assert_eq!((low.count(), low.max_ns()), (1000, 1_000_000_000));
        assert!((low.mean_ns() - 500.5e6).abs() < 1e-3);
        for (frac, ms) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            assert!((low.quantile_ns(frac) as f64 / (ms * 1e6) - 1.0).abs() < 0.004);
        }
        assert_eq!(Histogram::default().quantile_ns(0.5), 0);
    }
}
