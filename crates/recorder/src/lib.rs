//! The recorder: what this process does, written down while it runs.
//!
//! | module | is |
//! |---|---|
//! | [`recorder`] | the face to Python |
//! | [`gevent`], [`asyncio`] | which greenlet, which task runs |
//! | [`calls`] | the C library's blocking calls, and waits for the GIL |
//! | [`strand`] | what one OS thread does now: which unit runs, for which job, since when |
//! | [`lead`], [`types`] | called in the place of a program's method; C types made by hand |
//! | [`names`] | texts that events name by number |
//! | [`ring`], [`desk`] | one thread's events on their way to the writer; all of them |
//! | [`writer`], [`segments`] | the native thread that drains the rings, without the GIL; its files |
//! | [`sampler`], [`alarm`], [`gil_waits`], [`frames`] | the native thread that looks where culprits are; what wakes it, for whom, and what it sees |
//! | [`live`] | the last minute's figures by route, for `greenlane top` and metrics |
//! | [`spent`] | where a unit's time went so far, for spans of OpenTelemetry |
//! | [`resource`], [`locks`] | who has the places of a pool, or a lock, while others wait for it |
//! | [`cost`] | what all this costs |
//! | [`switch`], [`pending`], [`known_threads`] | whether anything is recorded; from when on; on which threads |
//!
//! Cost when off: one relaxed load a call. On the path there is no lock and no system call but the clocks; a full ring
//! loses events and counts them.

mod alarm;
pub mod asyncio;
mod calls;
mod cores;
mod cost;
mod desk;
mod frames;
pub mod gevent;
mod gil_waits;
mod known_threads;
pub mod lead;
mod live;
pub mod locks;
mod names;
mod pending;
pub mod recorder;
pub mod resource;
mod ring;
pub mod sampler;
mod segments;
mod spent;
mod strand;
pub mod switch;
mod types;
mod writer;

pub use calls::python;
pub use frames::current_frames;
pub use greenlane_recording_format::event::{
    TURN_CHARGED, TURN_EXPRESS, TURN_SHARED, TURN_SKIPPED, TURN_TAKEN,
};
pub use strand::{timed_out, took_its_turn, waited_for_a_permit};
