//! The recorder: what this process does, written down while it runs.
//!
//! | module | is |
//! |---|---|
//! | [`recorder`] | the face to Python |
//! | [`gevent`], [`asyncio`] | which greenlet, which task runs |
//! | [`calls`] | the C library's blocking calls, and waits for the GIL |
//! | [`thread_state`] | what one OS thread does now: which unit runs, for which job, since when |
//! | [`method_hook`], [`types`] | called in the place of a program's method; C types made by hand |
//! | [`names`] | texts that events name by number |
//! | [`ring`], [`thread_registry`] | one thread's events on their way to the writer; all of them |
//! | [`writer`], [`segments`] | the native thread that drains the rings, without the GIL; its files |
//! | [`sampler`], [`alarm`], [`gil_waits`], [`frames`] | the native thread that looks where culprits are; what wakes it, for whom, and what it sees |
//! | [`live`] | the last minute's figures by route, for `greenlane top` and metrics |
//! | [`unit_totals`] | where a unit's time went so far, for spans of OpenTelemetry |
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
mod frames;
pub mod gevent;
mod gil_waits;
mod known_threads;
mod live;
pub mod locks;
pub mod method_hook;
mod names;
mod pending;
pub mod recorder;
pub mod resource;
mod ring;
pub mod sampler;
mod segments;
pub mod switch;
mod thread_registry;
mod thread_state;
mod types;
mod unit_totals;
mod writer;

pub use calls::python;
pub use frames::current_frames;
pub use greenlane_recording_format::event::{
    TURN_CHARGED, TURN_EXPRESS, TURN_SHARED, TURN_SKIPPED, TURN_TAKEN,
};
pub use thread_state::{timed_out, took_its_turn, waited_for_a_permit};
