//! An open-loop load generator over HTTP/1.1, for TCP and Unix sockets. One thread, no Python, no unsafe code.
//!
//! Open loop: a request leaves when its time has come, whether or not earlier ones were answered. Every latency is meant
//! to be taken from that scheduled moment; what the generator itself lost is written down beside it (`begun_ns`).
//!
//! | module | is |
//! |---|---|
//! | [`plan`] | what is asked for, and its results, as columns |
//! | [`answer`] | where an HTTP/1.1 answer ends, its status, whether its connection may go on |
//! | [`socket`] | addresses, connecting |
//! | [`pool`] | connections that are kept, and requests that wait for one |
//! | [`clock`] | nanoseconds, and a thread that wakes on time |
//! | [`generator`] | the loop |

#![forbid(unsafe_code)]

pub mod answer;
pub mod clock;
mod connection;
pub mod generator;
pub mod plan;
pub mod pool;
pub mod socket;

pub use generator::run;
pub use plan::{FailureReason, Outcome, Schedule, Stopped, Stream, FAILED, UNANSWERED};
pub use socket::Address;
