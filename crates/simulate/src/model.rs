//! What is simulated: routes, the sequences of work that their requests do, when requests come, and what they call.

use super::random::Stream;

/// What a step of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// CPU under the GIL.
    Cpu,
    /// Blocked until a reply is there.
    Io { upstream: Option<u32> },
    /// CPU without the GIL, on the same thread.
    Free,
    /// CPU under the GIL on the one native thread that a process has for such work.
    Thread,
    /// CPU in a worker process beside the service's own.
    Process,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub work: Work,
    /// How long it is.
    pub ns: u64,
}

/// What requests of one route do: one of these.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// Steps `first..end` of the model's.
    pub first: u32,
    pub end: u32,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Route {
    pub name: String,
    pub per_s: f64,
    /// From arrival, ns; 0 = none.
    pub deadline_ns: u64,
    /// Each with the weights up to it summed up.
    sequences: Vec<(f64, Sequence)>,
}

impl Route {
    /// A route whose requests do one of `sequences`, each as often as its weight says.
    pub fn new(name: &str, per_s: f64, deadline_ns: u64, sequences: Vec<(f64, Sequence)>) -> Self {
        let mut sum = 0.0;
        let summed = |(weight, one)| {
            sum += weight;
            (sum, one)
        };
        Self {
            name: name.to_owned(),
            per_s,
            deadline_ns,
            sequences: sequences.into_iter().map(summed).collect(),
        }
    }

    /// The sequence of this number; the last one where there are fewer.
    pub fn sequence(&self, number: usize) -> Sequence {
        self.sequences[number.min(self.sequences.len() - 1)].1
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sequences.len()
    }

    /// What one request does.
    pub fn draw(&self, stream: &mut Stream) -> Sequence {
        let at = stream.unit() * self.sequences[self.sequences.len() - 1].0;
        self.sequence(self.sequences.partition_point(|&(upto, _)| upto < at))
    }

    /// Its sequences with their shares.
    pub fn shares(&self) -> impl Iterator<Item = (f64, Sequence)> + '_ {
        let sum = self.sequences[self.sequences.len() - 1].0;
        let mut below = 0.0;
        self.sequences.iter().map(move |&(upto, one)| {
            let share = (upto - below) / sum;
            below = upto;
            (share, one)
        })
    }
}

/// A request that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedArrival {
    /// From the start.
    pub at_ns: u64,
    pub route: u32,
    /// Which of the route's sequences it was; None = one is drawn.
    pub sequence: Option<u32>,
}

/// When requests come.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// At the routes' rates. `dispersion`: variance over mean of the number in a second; 1 = Poisson, 0 = evenly.
    Open { dispersion: f64 },
    /// These, by time, and no more: all of them count, the first as well.
    Recorded(Vec<RecordedArrival>),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Model {
    pub arrivals: Arrivals,
    pub routes: Vec<Route>,
    pub steps: Vec<Step>,
    /// Names of what requests call.
    pub upstreams: Vec<String>,
}

impl Model {
    /// Requests a second of all routes.
    pub fn per_s(&self) -> f64 {
        self.routes.iter().map(|route| route.per_s).sum()
    }

    /// Mean (CPU under the GIL, everything else) of a request of `route`, ns.
    pub fn means_ns(&self, route: &Route) -> (f64, f64) {
        let mut means = (0.0, 0.0);
        for (share, sequence) in route.shares() {
            for step in &self.steps[sequence.first as usize..sequence.end as usize] {
                let part = match step.work {
                    Work::Cpu => &mut means.0,
                    _ => &mut means.1,
                };
                *part += share * step.ns as f64;
            }
        }
        means
    }
}
