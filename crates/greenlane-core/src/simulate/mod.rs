//! The plan's simulator: what each route's latency would be under a set-up, with the production's own rules.
//!
//! Discrete events: a clock that jumps. A process is one CPU whose order is its host's (threads under a GIL with its
//! switch interval, with permits or without; gevent's loop; asyncio's; ideal orders to compare with). What decides in
//! production decides here, the same code: [`crate::weight`], [`crate::queue`], [`crate::bounds`], [`crate::stretch`],
//! [`crate::shed`], [`crate::at_once`], [`crate::upstream`].
//!
//! | module | is |
//! |---|---|
//! | [`model`], [`set_up`], [`reading`] | what is simulated, how it is served, both from JSON |
//! | [`random`], [`law`], [`source`] | requests: streams of numbers by name, so that every policy meets the same |
//! | [`heap`], [`cores`], [`world`] | time |
//! | [`process`], [`line`], [`gil`], [`turns`], [`gate`], [`interval`], [`looped`], [`loops`] | one process's CPU |
//! | [`front`], [`connections`] | which process gets a request |
//! | [`calls`], [`bulkheads`] | upstreams, and work placed elsewhere |
//! | [`histogram`], [`tally`], [`report`] | what came of it |
//!
//! Left out: collections of garbage, page faults, losses on the network, retries, what a core's cache forgets at a
//! switch. What switching and dispatching cost, and who is faster at the GIL, is what the set-up says.
//!
//! Cost: 0.1 us an event or less; a request has two to six. Memory: 150 bytes a request in progress, 40 kB a route.

mod bulkheads;
mod calls;
mod connections;
mod cores;
mod front;
mod gate;
mod gil;
mod heap;
mod histogram;
mod interval;
mod jobs;
mod law;
mod line;
mod looped;
mod loops;
mod model;
mod process;
mod random;
mod reading;
mod report;
mod set_up;
mod source;
mod tally;
mod turns;
mod world;

pub use histogram::Histogram;
pub use law::Law;
pub use model::{Arrivals, Came, Model, Route, Sequence, Step, Upstream, Work};
pub use reading::{model_and_set_up, Wrong};
pub use report::{Report, RouteReport};
pub use set_up::{Bulkheads, Costs, Host, KeepAlive, Kind, Lane, Order, PermitRule, Queue, SetUp};
pub use tally::{Batch, Cause, Counts, OfRoute, BATCHES, FRACS};

use world::World;

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Requests that are counted.
    pub jobs: u64,
    pub seed: u64,
    /// How many times the model's rates come; more than 0.
    pub load: f64,
}

/// Part of the counted requests that come before them, while the service fills.
const WARM_PART: u64 = 10;
/// … and at most.
const WARM_MOST: u64 = 200_000;

/// Runs `model` under `set_up`. Deterministic. None: `tick`, which is told the part that is done, has given false.
pub fn simulate(
    model: &Model,
    set_up: &SetUp,
    run: &Run,
    tick: &mut dyn FnMut(f64) -> bool,
) -> Option<Report> {
    let (jobs, warm) = match &model.arrivals {
        Arrivals::Recorded { came, once: true } => (came.len() as u64, 0),
        _ => (
            run.jobs.max(1),
            (run.jobs.max(1) / WARM_PART).min(WARM_MOST),
        ),
    };
    let mut world = World::new(model, set_up, warm, jobs, run.seed, run.load);
    world.run(jobs, tick).then(|| world.report(jobs))
}

#[cfg(test)]
mod tests;
