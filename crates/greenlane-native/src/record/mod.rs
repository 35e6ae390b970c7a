//! The recorder: what this process does, written down while it runs.
//!
//! | module | is |
//! |---|---|
//! | [`ring`] | one thread's events on their way to the writer |
//! | [`names`] | texts that events name by number |
//! | [`strand`] | what one OS thread does now: which unit runs, for which job, since when |
//! | [`held`] | the Python stack of a call that blocked a whole loop |
//! | [`live`] | the last minute's figures by route, for `greenlane top` and metrics |
//! | [`spent`] | where a unit's time went so far, for spans of OpenTelemetry |
//! | [`cost`] | what all this costs |
//! | [`segments`] | the files |
//! | [`writer`] | the native thread that drains the rings into the files; it never takes the GIL |
//! | [`sampler`] | the native thread that looks where culprits are |
//! | [`recorder`] | the face to Python |
//!
//! Cost when off: one relaxed load a call. On the path there is no lock and no system call but the clocks; a full ring
//! loses events and counts them.

#![allow(dead_code)] // Until the loops' probes and the redirected calls are there.

pub mod cost;
pub mod held;
pub mod live;
pub mod names;
pub mod recorder;
pub mod ring;
pub mod sampler;
pub mod segments;
pub mod spent;
pub mod strand;
pub mod writer;

use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(false);

/// Whether events are wanted now.
#[inline]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

fn switch(on: bool) {
    ON.store(on, Ordering::Relaxed);
}
