//! Whether this process records now.

use std::sync::atomic::{AtomicBool, Ordering};

static ON: AtomicBool = AtomicBool::new(false);

/// Whether events are wanted now.
#[inline]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Wants events from now on, or no more.
pub fn set(on: bool) {
    ON.store(on, Ordering::Relaxed);
}
