//! Results of the requests: latencies, outcomes, waits by cause. The first are not counted: the service is empty then.

use super::histogram::Histogram;

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
pub enum Cause {
    /// A process: in the front's queue, at the socket, for a place.
    Queue,
    /// The CPU: the GIL, or the loop.
    Cpu,
    Permit,
    /// Calls before it at the upstream's limit.
    Upstream,
    /// The one thread, or the processes, that its work is placed in.
    Placed,
}

impl Cause {
    /// All, in the order of their numbers.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Queue, "queue"),
        (Self::Cpu, "cpu"),
        (Self::Permit, "permit"),
        (Self::Upstream, "upstream"),
        (Self::Placed, "placed"),
    ];
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Never begun.
    Refused,
}

/// Counts of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answered well, late ones among them.
    pub done: u64,
    /// Answered well after their deadline.
    pub late: u64,
    pub refused: u64,
}

/// One route.
#[derive(Clone, Debug, Default)]
pub struct OfRoute {
    pub counts: Counts,
    pub latency: Histogram,
    pub cpu_ns: u128,
    pub waits_ns: [u128; Cause::ALL.len()],
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Tally {
    pub routes: Vec<OfRoute>,
    warm: u64,
    jobs: u64,
    ended: u64,
}

impl Tally {
    /// `jobs` requests are counted, after the first `warm`.
    pub fn new(routes: usize, warm: u64, jobs: u64) -> Self {
        Self {
            routes: vec![OfRoute::default(); routes],
            warm,
            jobs,
            ended: 0,
        }
    }

    /// Whether the request of this number counts.
    pub fn counts(&self, index: u64) -> bool {
        index >= self.warm && index - self.warm < self.jobs
    }

    /// Counted requests that have ended.
    pub fn jobs_ended(&self) -> u64 {
        self.ended
    }

    /// Whether all have.
    pub fn complete(&self) -> bool {
        self.ended >= self.jobs
    }

    /// A wait is over.
    pub fn add_wait(&mut self, index: u64, route: u32, cause: Cause, ns: u64) {
        if self.counts(index) {
            self.routes[route as usize].waits_ns[cause as usize] += u128::from(ns);
        }
    }

    /// A burst is over.
    pub fn add_burst(&mut self, index: u64, route: u32, ns: u64) {
        if self.counts(index) {
            self.routes[route as usize].cpu_ns += u128::from(ns);
        }
    }

    /// A request has ended, after `took_ns`.
    pub fn end(&mut self, (index, route): (u64, u32), outcome: Outcome, took_ns: u64, late: bool) {
        if !self.counts(index) {
            return;
        }
        let one = &mut self.routes[route as usize];
        match outcome {
            Outcome::Done => {
                one.counts.done += 1;
                one.counts.late += u64::from(late);
                one.latency.record(took_ns);
            }
            Outcome::Refused => one.counts.refused += 1,
        }
        self.ended += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_requests_do_not_count() {
        let mut tally = Tally::new(2, 10, 100);
        for index in 0..200u64 {
            let outcome = if index % 10 == 0 {
                Outcome::Refused
            } else {
                Outcome::Done
            };
            let which = (index, (index % 2) as u32);
            tally.end(which, outcome, index * 1_000, index > 100);
        }
        assert!(tally.complete());
        let all = |pick: fn(&Counts) -> u64| [0, 1].map(|route| pick(&tally.routes[route].counts));
        assert_eq!(all(|counts| counts.done), [40, 50]);
        assert_eq!(all(|counts| counts.refused), [10, 0]);
        assert_eq!(all(|counts| counts.late), [4, 5]);
        assert_eq!(tally.routes[1].latency.count(), 50);
    }
}
