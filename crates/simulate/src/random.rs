//! Random numbers by name: a stream follows from the seed, what it is for, and a number; never from a policy.
//!
//! So two policies meet the very same requests (common random numbers), and their difference is not noise. SplitMix64
//! (Steele, Lea, Flood, OOPSLA 2014): eight bytes of state, so that each job carries its own.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a stream is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// When requests of a route come.
    Arrivals = 1,
    /// How much more than usual comes in a second.
    Rate,
    /// What the requests of a route do.
    Jobs,
    /// What is chosen at random by a policy.
    Choice,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Stream(u64);

impl Stream {
    /// The stream of `index` for `purpose`.
    pub fn of(seed: u64, purpose: Purpose, index: u64) -> Self {
        let purpose = mix(seed.wrapping_add(GOLDEN.wrapping_mul(purpose as u64)));
        Self(purpose).member(index)
    }

    /// A stream of its own for each number, whatever was drawn from this one's other members.
    pub fn member(self, number: u64) -> Self {
        Self(mix(
            self.0 ^ mix(number.wrapping_add(1).wrapping_mul(GOLDEN))
        ))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Over 0 up to 1.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `count`, which is more than 0.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Gamma with mean 1 and this shape, which is more than 0 (Marsaglia and Tsang, ACM TOMS 26, 2000).
    pub fn gamma(&mut self, shape: f64) -> f64 {
        if shape < 1.0 {
            let smaller = self.unit().powf(1.0 / shape);
            return self.gamma(shape + 1.0) * smaller * (shape + 1.0) / shape;
        }
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && self.unit().ln() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v / shape;
            }
        }
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    fn mean_and_variance(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..DRAWS {
            let value = draw();
            sum += value;
            squares += value * value;
        }
        let mean = sum / f64::from(DRAWS);
        (mean, squares / f64::from(DRAWS) - mean * mean)
    }

    #[test]
    fn laws_have_their_means_and_variances() {
        let mut stream = Stream::of(7, Purpose::Jobs, 3);
        let near = |found: (f64, f64), mean: f64, variance: f64| {
            assert!((found.0 - mean).abs() < 0.02, "{found:?}");
            assert!(
                (found.1 - variance).abs() < 0.05 * variance.max(1.0),
                "{found:?}"
            );
        };
        near(mean_and_variance(|| stream.unit()), 0.5, 1.0 / 12.0);
        near(mean_and_variance(|| stream.exponential()), 1.0, 1.0);
        near(mean_and_variance(|| stream.normal()), 0.0, 1.0);
        near(mean_and_variance(|| stream.gamma(4.0)), 1.0, 0.25);
        near(mean_and_variance(|| stream.gamma(0.5)), 1.0, 2.0);
    }

    #[test]
    fn members_are_the_same_whenever_they_are_asked_for() {
        let of = |index| Stream::of(1, Purpose::Jobs, index);
        let mut used = of(5);
        used.bits();
        assert_eq!(of(5).member(9).bits(), of(5).member(9).bits());
        assert_ne!(of(5).member(9).bits(), of(5).member(10).bits());
        assert_ne!(of(5).member(9).bits(), of(6).member(9).bits());
    }
}
