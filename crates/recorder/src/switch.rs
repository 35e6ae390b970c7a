//! Whether this process records now.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static ON: AtomicBool = AtomicBool::new(false);
static TIMES: AtomicU32 = AtomicU32::new(0);

/// Whether events are wanted now.
#[inline]
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// How often it has been switched on: what was begun before the last time has not been followed since.
#[inline]
pub fn times() -> u32 {
    TIMES.load(Ordering::Relaxed)
}

/// Wants events from now on, or no more.
pub fn set(on: bool) {
    if on && !self::on() {
        TIMES.fetch_add(1, Ordering::Relaxed);
    }
    ON.store(on, Ordering::Relaxed);
}
