//! How a step's length varies around its mean.

use super::random::Stream;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Always the mean: what a recorded sequence has.
    Fixed,
    Exponential,
    /// `sigma` of the logarithm; see [`Law::lognormal`].
    Lognormal {
        sigma: f64,
    },
}

impl Law {
    /// The lognormal law with this coefficient of variation (standard deviation over mean).
    pub fn lognormal(variation: f64) -> Self {
        Self::Lognormal {
            sigma: (1.0 + variation * variation).ln().sqrt(),
        }
    }

    /// One length, ns.
    pub fn draw(self, mean_ns: u64, stream: &mut Stream) -> u64 {
        let factor = match self {
            Self::Fixed => return mean_ns,
            Self::Exponential => stream.exponential(),
            Self::Lognormal { sigma } => (sigma * stream.normal() - sigma * sigma / 2.0).exp(),
        };
        (mean_ns as f64 * factor).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Purpose;
    use super::*;

    #[test]
    fn a_lognormal_length_has_its_mean_and_variation() {
        let (law, mut stream) = (Law::lognormal(2.0), Stream::of(1, Purpose::Jobs, 0));
        let draws: Vec<f64> = (0..400_000)
            .map(|_| law.draw(1_000_000, &mut stream) as f64 / 1e6)
            .collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let square = draws.iter().map(|one| one * one).sum::<f64>() / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!((square - 5.0).abs() < 0.6, "{square}");
    }
}
