//! The plan's simulator: what each route's latency would be under a set-up, with the production's own rules.
//!
//! Discrete events: a clock that jumps. A process is one CPU whose order is its host's (threads under a GIL with its
//! switch interval, with permits or without; gevent's loop; asyncio's). What decides in
//! production decides here, the same code.
//!
//! | module | is |
//! |---|---|
//! | [`model`], [`set_up`], [`reading`] | what is simulated, how it is served, both from JSON |
//! | [`random`], [`source`] | requests: streams of numbers by name, so that every policy meets the same |
//! | [`heap`], [`cores`] | time |
//! | [`process`], [`gil`], [`permits`], [`interval`], [`looped`] | one process's CPU, and who has it |
//! | [`front`], [`bulkheads`] | requests before a process has them |
//! | [`world`] | the state of a run: all of the above |
//! | [`run`] | what happens in it, an event after the other |
//! | [`histogram`], [`tally`], [`report`] | the results |
//!
//! Left out: collections of garbage, page faults, losses on the network, retries, what a core's cache forgets at a
//! switch. What switching and dispatching cost, and who is faster at the GIL, is what the set-up says.
//!
//! Cost: 0.1 us an event or less; a request has two to six. Memory: 150 bytes a request in progress, 40 kB a route.

mod bulkheads;
mod cores;
mod front;
mod gil;
mod heap;
mod histogram;
mod interval;
mod jobs;
mod looped;
mod model;
mod permits;
mod process;
mod random;
mod reading;
mod report;
mod run;
mod set_up;
mod source;
mod tally;
mod world;

pub use reading::{model_and_set_up, Wrong};
pub use report::Report;
pub use run::{simulate, Run};
