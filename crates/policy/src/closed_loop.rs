//! Exact means of a closed loop: one CPU and a delay, with a fixed number of requests in progress.
//!
//! Mean value analysis (Reiser and Lavenberg, JACM 27, 1980): a request that comes to the CPU finds there what would be
//! there on average with one request fewer. It is exact for exponential bursts served first come first served, for any
//! bursts that share the CPU evenly, and for delays of any distribution. Constant work needs fewer requests than it says;
//! work that varies more waits longer under first come first served. Means say nothing of percentiles.

/// Means with one CPU and a delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Ended in a unit of time.
    pub per: f64,
    /// From coming to the CPU until leaving it, all visits of a request together.
    pub response: f64,
    /// At the CPU: computing, or waiting for it.
    pub at_cpu: f64,
}

/// The means with 1, 2, 3 … requests in progress, of one CPU and a delay. They do not depend on how many bursts `cpu` is
/// cut into. Cost: some ns each.
pub fn one_cpu(cpu: f64, delay: f64) -> impl Iterator<Item = Means> {
    let mut at_cpu = 0.0;
    (1u32..).map(move |number| {
        let response = cpu * (1.0 + at_cpu);
        // Nothing to do at all takes no time, which no rate can say.
        let per = f64::from(number) / (response + delay).max(1e-9);
        at_cpu = per * response;
        Means {
            per,
            response,
            at_cpu,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, frac: f64) -> bool {
        (found - expected).abs() <= frac * expected.abs()
    }

    #[test]
    fn one_cpu_has_the_published_means() {
        let rows: Vec<Means> = one_cpu(5.0, 55.0).take(50).collect();
        for (number, per_s, latency) in [
            (1, 16.667, 60.0),
            (5, 80.515, 62.1),
            (11, 158.8, 69.27),
            (12, 168.221, 71.335),
            (20, 199.0, 100.5),
            (50, 200.0, 250.0),
        ] {
            let means = rows[number - 1];
            assert!(near(1000.0 * means.per, per_s, 1e-3), "{number}: {means:?}");
            assert!(
                near(means.response + 55.0, latency, 1e-3),
                "{number}: {means:?}"
            );
        }
    }
}
