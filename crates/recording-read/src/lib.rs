//! Reads recordings (`docs/recording-format.md`): what happened in a service, and where its time went.
//!
//! | module | is |
//! |---|---|
//! | [`read`] | finds the chunks of a recording, whole or damaged |
//! | [`parts`] | a large process, a part at a time |
//! | [`timeline`] | what each unit did at each moment |
//! | [`account`] | where each job's time went |
//! | [`blame`] | who had what others waited for: turns and their sums |
//! | `unseen` | what of the time off the core was no want of a core |
//! | [`occupancy`] | those turns, of a process: its loops' threads, the GIL, the workers |
//! | [`contended`] | waits for places of resources, and who had them |
//! | [`culprits`] | what culprits are called |
//! | `elsewhere` | waits for results: for a place in a pool, in a thread's queue, or for what computes them |
//! | [`ending`] | what was in progress when a process ended |
//! | [`analysis`] | all of it: rows about a recording |

pub mod account;
pub mod analysis;
pub mod blame;
pub mod contended;
pub mod culprits;
mod delegated_waits;
pub mod ending;
mod hidden_blocking;
pub mod occupancy;
pub mod parts;
pub mod read;
pub mod resources;
pub mod timeline;

#[cfg(test)]
mod damaged;
