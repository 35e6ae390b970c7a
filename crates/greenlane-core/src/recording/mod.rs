//! The recording: what happened in a service, as events in an open file format (`docs/recording-format.md`).
//!
//! | module | is |
//! |---|---|
//! | [`event`] | what can be written down |
//! | [`codec`] | events to bytes and back |
//! | [`chunk`] | the frame around what one flush wrote: magic, version, process, checksum |
//! | [`read`] | finds the chunks of a recording, whole or damaged |
//! | [`life`] | what each unit did at each moment |
//! | [`account`] | where each job's time went |
//! | [`blame`] | who had what others waited for: turns and their sums |
//! | [`who`] | those turns, of a process: its loops' threads, the GIL, the workers |
//! | [`culprits`] | what culprits are called |
//! | [`ending`] | what was in progress when a process ended |
//! | [`analysis`] | all of it: rows about a recording |

pub mod account;
pub mod analysis;
pub mod blame;
pub mod chunk;
pub mod codec;
pub mod culprits;
pub mod ending;
pub mod event;
pub mod life;
pub mod read;
pub mod who;

#[cfg(test)]
mod damaged;
