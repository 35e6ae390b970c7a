//! When requests come, and what each of them does.
//!
//! Every number is drawn from a stream of the seed, the route and the request's number in its route, so that another
//! policy, or another number of processes, meets the very same requests.

use super::model::{Arrivals, Model, RecordedArrival};
use super::random::{Purpose, Stream};

const SECOND_NS: f64 = 1e9;

/// The law of the gaps of an open source.
#[derive(Clone, Copy, Debug)]
enum Gaps {
    Even,
    Poisson,
    /// Gamma with this shape: more even than Poisson.
    Gamma(f64),
    /// Poisson at a rate that changes each second by a gamma factor with mean 1 and this variance.
    Surging(f64),
}

#[derive(Clone, Debug)]
struct OfRoute {
    gaps: Stream,
    jobs: Stream,
    number: u64,
    /// Mean gap, ns; infinite = none comes.
    gap_ns: f64,
    at_ns: f64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Source {
    routes: Vec<OfRoute>,
    gaps: Gaps,
    rate: Stream,
    /// The second that is known, and its factor.
    second: (u64, f64),
    started: u64,
    load: f64,
    recorded: usize,
}

impl Source {
    /// `load`: how many times the model's rates come.
    pub fn new(model: &Model, seed: u64, load: f64) -> Self {
        let gaps = match model.arrivals {
            Arrivals::Open { dispersion } if dispersion <= 0.0 => Gaps::Even,
            Arrivals::Open { dispersion } if dispersion < 1.0 => Gaps::Gamma(1.0 / dispersion),
            Arrivals::Open { dispersion } if dispersion > 1.0 => {
                Gaps::Surging((dispersion - 1.0) / model.per_s())
            }
            _ => Gaps::Poisson,
        };
        let routes = model.routes.iter().enumerate();
        let route = |(index, route): (usize, &super::model::Route)| OfRoute {
            gaps: Stream::of(seed, Purpose::Arrivals, index as u64),
            jobs: Stream::of(seed, Purpose::Jobs, index as u64),
            number: 0,
            gap_ns: SECOND_NS / (route.per_s * load),
            at_ns: 0.0,
        };
        Self {
            routes: routes.map(route).collect(),
            gaps,
            rate: Stream::of(seed, Purpose::Rate, 0),
            second: (u64::MAX, 1.0),
            started: 0,
            load,
            recorded: 0,
        }
    }

    /// Requests so far.
    pub fn jobs_started(&self) -> u64 {
        self.started
    }

    /// Begins a request of `route`: its number among all, and the stream that it draws from.
    pub fn begin(&mut self, route: usize) -> (u64, Stream) {
        let one = &mut self.routes[route];
        one.number += 1;
        self.started += 1;
        (self.started - 1, one.jobs.member(one.number))
    }

    /// When the next request of `route` comes, ns; None = never.
    pub fn next(&mut self, route: usize) -> Option<u64> {
        let gap_ns = self.routes[route].gap_ns;
        if !gap_ns.is_finite() {
            return None;
        }
        let stream = &mut self.routes[route].gaps;
        let gap = match self.gaps {
            Gaps::Even => 1.0,
            Gaps::Poisson => stream.exponential(),
            Gaps::Gamma(shape) => stream.gamma(shape),
            Gaps::Surging(variance) => {
                let mut left = stream.exponential();
                let mut at_ns = self.routes[route].at_ns;
                loop {
                    let second = (at_ns / SECOND_NS) as u64;
                    let factor = self.factor(second, variance);
                    let until_ns = (second + 1) as f64 * SECOND_NS;
                    let room = (until_ns - at_ns) / gap_ns * factor;
                    if left <= room {
                        at_ns += left * gap_ns / factor;
                        break;
                    }
                    left -= room;
                    at_ns = until_ns;
                }
                (at_ns - self.routes[route].at_ns) / gap_ns
            }
        };
        let one = &mut self.routes[route];
        one.at_ns += gap * gap_ns;
        Some(one.at_ns as u64)
    }

    /// The next of recorded arrivals: (ns, its number among them). None = all of them have come.
    pub fn replay(&mut self, came: &[RecordedArrival]) -> Option<(u64, u32)> {
        let due_ns = came.get(self.recorded)?.at_ns as f64 / self.load;
        self.recorded += 1;
        Some((due_ns as u64, self.recorded as u32 - 1))
    }

    fn factor(&mut self, second: u64, variance: f64) -> f64 {
        if self.second.0 != second {
            let factor = self.rate.member(second).gamma(1.0 / variance);
            self.second = (second, factor.max(1e-9));
        }
        self.second.1
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Route, Sequence, Step, Work};
    use super::*;

    const fn came(at_ns: u64, route: u32) -> RecordedArrival {
        RecordedArrival {
            at_ns,
            route,
            sequence: None,
        }
    }
    const CAME: [RecordedArrival; 2] = [came(0, 0), came(1_000, 1)];

    fn model(dispersion: f64) -> Model {
        let sequence = Sequence { first: 0, end: 1 };
        Model {
            arrivals: Arrivals::Open { dispersion },
            routes: vec![
                Route::new("a", 30.0, 0, vec![(1.0, sequence)]),
                Route::new("b", 70.0, 0, vec![(1.0, sequence)]),
            ],
            steps: vec![Step {
                work: Work::Cpu,
                ns: 1,
            }],
            upstreams: vec![],
        }
    }

    /// Mean and variance of the number in a second.
    fn counted(dispersion: f64) -> (f64, f64) {
        const SECONDS: usize = 4_000;
        let mut source = Source::new(&model(dispersion), 3, 1.0);
        let mut counts = vec![0.0; SECONDS];
        for route in 0..2 {
            while let Some(at_ns) = source.next(route) {
                match counts.get_mut((at_ns / 1_000_000_000) as usize) {
                    Some(count) => *count += 1.0,
                    None => break,
                }
            }
        }
        let mean = counts.iter().sum::<f64>() / SECONDS as f64;
        let squares = counts.iter().map(|one| one * one).sum::<f64>() / SECONDS as f64;
        (mean, squares - mean * mean)
    }

    #[test]
    fn counts_of_a_second_vary_as_asked() {
        for (dispersion, tolerance) in [(0.0, 0.1), (0.25, 0.1), (1.0, 0.1), (4.0, 0.5)] {
            let (mean, variance) = counted(dispersion);
            assert!((mean - 100.0).abs() < 1.5, "{dispersion} {mean}");
            let found = variance / mean;
            assert!(
                (found - dispersion).abs() < tolerance,
                "{dispersion} {found}"
            );
        }
    }

    #[test]
    fn recorded_arrivals_come_once_and_faster_under_more_load() {
        let mut source = Source::new(&model(1.0), 1, 2.0);
        let found: Vec<_> = (0..4).filter_map(|_| source.replay(&CAME)).collect();
        assert_eq!(found, [(0, 0), (500, 1)]);
    }
}
