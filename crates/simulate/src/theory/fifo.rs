//! The distribution of the wait for one server, first come first served, arrivals as they like (Poisson), work of any
//! distribution: exact but for the width of a grid.
//!
//! What is found in the queue is a geometric number of remainders of bursts (Pollaczek 1930, Khinchine 1932; Beneš 1957
//! in this form): W = R1 + … + RN, P(N = n) = (1 - ρ) ρ^n. Summed on a grid by Panjer's recursion (ASTIN 12, 1981), which
//! has positive terms only. It holds for one server that is never interrupted; the GIL's slices make of it something
//! between this and an even share.

/// Points of the grid at most: 30 ms of work.
const POINTS: usize = 8_192;
/// Points for a mean burst, where they suffice.
const FINE: f64 = 64.0;
/// Share of waits that the grid need not reach.
const LEFT: f64 = 1e-4;

/// Waits on a grid.
#[derive(Clone, Debug)]
pub struct Waits {
    width: f64,
    /// Share of waits up to the upper end of each cell.
    below: Vec<f64>,
    /// What is beyond the grid falls by this share a cell.
    decay: f64,
}

impl Waits {
    /// Of requests that come at `rate` and need one of `times` each, as likely as any other. `None`: not stable, or
    /// nothing to serve. Cost: up to 0.2 s.
    pub fn of(rate: f64, times: &[f64]) -> Option<Self> {
        let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
        let utilisation = rate * mean;
        if times.is_empty() || mean <= 0.0 || utilisation >= 1.0 {
            return None;
        }
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut width = mean / FINE;
        loop {
            let below = summed(utilisation, &remainders(&sorted, mean, width));
            let reached = below.last().copied().unwrap_or(0.0);
            if 1.0 - reached <= LEFT || width > mean * 1e6 {
                let decay = falls(&below);
                return Some(Self {
                    width,
                    below,
                    decay,
                });
            }
            width *= 2.0;
        }
    }

    /// Share of waits beyond `time`.
    pub fn beyond(&self, time: f64) -> f64 {
        if time < 0.0 {
            return 1.0;
        }
        // Cell n ends at (n + 1/2) widths; the first one holds those that do not wait at all.
        let place = time / self.width - 0.5;
        if place <= 0.0 {
            return 1.0 - self.below[0];
        }
        let cell = place as usize;
        let last = self.below.len() - 1;
        if cell >= last {
            return (1.0 - self.below[last]) * self.decay.powf(place - last as f64);
        }
        let part = place - cell as f64;
        1.0 - (self.below[cell] * (1.0 - part) + self.below[cell + 1] * part)
    }
}

/// The share of remainders of bursts in each cell of the grid, until none is left. `times` ascend.
fn remainders(times: &[f64], mean: f64, width: f64) -> Vec<f64> {
    let number = times.len() as f64;
    // A remainder is up to x as often as a burst's part up to x is of all work.
    let (mut ended, mut work) = (0, 0.0);
    let mut upto = 0.0;
    let mut found = Vec::new();
    while ended < times.len() && found.len() < POINTS {
        let end = (found.len() as f64 + 0.5) * width;
        while ended < times.len() && times[ended] <= end {
            work += times[ended];
            ended += 1;
        }
        let share = (work + (times.len() - ended) as f64 * end) / (number * mean);
        found.push(share - upto);
        upto = share;
    }
    found
}

/// The geometric sum's share up to each cell.
fn summed(utilisation: f64, remainders: &[f64]) -> Vec<f64> {
    let scale = 1.0 / (1.0 - utilisation * remainders[0]);
    let mut cells: Vec<f64> = Vec::with_capacity(POINTS);
    let mut below = Vec::with_capacity(POINTS);
    let mut upto = 0.0;
    for cell in 0..POINTS {
        let share = if cell == 0 {
            (1.0 - utilisation) * scale
        } else {
            let parts = remainders.iter().skip(1).zip(cells.iter().rev());
            utilisation * scale * parts.map(|(one, rest)| one * rest).sum::<f64>()
        };
        cells.push(share);
        upto += share;
        below.push(upto.min(1.0));
        if 1.0 - upto <= LEFT / 100.0 {
            break;
        }
    }
    below
}

/// By what share a cell the end of the grid falls.
fn falls(below: &[f64]) -> f64 {
    let last = below.len() - 1;
    let earlier = last - last / 4;
    let (before, after) = (1.0 - below[earlier], 1.0 - below[last]);
    if last == earlier || before <= 0.0 || after <= 0.0 {
        return 0.0;
    }
    (after / before).powf(1.0 / (last - earlier) as f64)
}

#[cfg(test)]
mod tests {
    use super::super::waiting::{after_wait, quantile, Queue};
    use super::*;

    /// Quantiles of an exponential of mean 1.
    fn exponential(number: usize) -> Vec<f64> {
        (0..number)
            .map(|index| -(1.0 - (index as f64 + 0.5) / number as f64).ln())
            .collect()
    }

    #[test]
    fn an_exponential_burst_waits_as_erlang_says() {
        let times = exponential(4_000);
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        for utilisation in [0.3, 0.8, 0.95] {
            let waits = Waits::of(utilisation / mean, &times).unwrap();
            let known = Queue {
                rate: utilisation,
                mean: 1.0,
                cv2: 1.0,
                servers: 1,
            };
            for share in [0.5, 0.9, 0.99, 0.999] {
                let found = quantile(share, 1.0, |time| waits.beyond(time));
                let expected = quantile(share, 1.0, |time| known.tail().beyond(time));
                assert!(
                    (found - expected).abs() <= 0.02 * expected + 0.02,
                    "{utilisation} {share}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn its_mean_is_pollaczeks_and_khinchines() {
        let times: Vec<f64> = [vec![0.5; 95], vec![10.5; 5]].concat();
        let waits = Waits::of(0.8, &times).unwrap();
        let square = times.iter().map(|time| time * time).sum::<f64>() / 100.0;
        let expected = 0.8 * square / (2.0 * 0.2);
        let step = 0.01;
        let mean: f64 = (0..40_000)
            .map(|cell| waits.beyond((cell as f64 + 0.5) * step) * step)
            .sum();
        assert!(
            (mean - expected).abs() < 0.01 * expected,
            "{mean} {expected}"
        );
    }

    /// Constant work at 0.8: 1 - 0.2 = 0.8 wait at all; who comes within the burst of the only one there waits its rest.
    #[test]
    fn constant_work_waits_as_erlangs_formula_of_1909_says() {
        let waits = Waits::of(0.8, &[1.0]).unwrap();
        // P(W <= t) = (1 - rho) e^(rho t) for t < 1.
        for time in [0.1, 0.5, 0.9f64] {
            let expected = 1.0 - 0.2 * (0.8 * time).exp();
            assert!((waits.beyond(time) - expected).abs() < 1e-3, "{time}");
        }
        // At 2.5: sum over whole bursts.
        let part = |time: f64, power: i32, factorial: f64| {
            (0.8 * time).exp() * (-0.8 * time).powi(power) / factorial
        };
        let expected = 1.0 - 0.2 * (part(2.5, 0, 1.0) + part(1.5, 1, 1.0) + part(0.5, 2, 2.0));
        assert!((waits.beyond(2.5) - expected).abs() < 1e-3);
    }

    #[test]
    fn a_full_server_has_no_waits_that_could_be_told() {
        assert!(Waits::of(1.0, &[1.0]).is_none());
        assert!(Waits::of(1.0, &[]).is_none());
        assert!(Waits::of(1.0, &[0.0]).is_none());
    }

    #[test]
    fn next_to_full_it_still_ends() {
        let waits = Waits::of(0.999, &[1.0]).unwrap();
        let p99 = quantile(0.99, 1.0, |time| {
            after_wait(&[1.0], time, |time| waits.beyond(time))
        });
        // Heavy traffic: exponential with mean rho / (2 (1 - rho)).
        assert!(
            (p99 / (1.0 + 499.5 * (99.9f64).ln()) - 1.0).abs() < 0.02,
            "{p99}"
        );
    }
}
