//! Who observes waits for permits: the recorder, where there is one. This crate does not know it.

use std::sync::OnceLock;

static TOLD: OnceLock<fn(u64, u64)> = OnceLock::new();
static STOPPED: OnceLock<fn(u64, u64)> = OnceLock::new();

/// Tells `told` of each wait for a permit, from and to (ns), on the thread that waited. The first word wins.
pub fn tell(told: fn(u64, u64)) {
    // Told twice by one module: it is the same function.
    let _ = TOLD.set(told);
}

/// Tells `told` of each time that a phase stood still, likewise.
pub fn tell_of_stops(told: fn(u64, u64)) {
    let _ = STOPPED.set(told);
}

/// This thread's phase has stood still.
pub fn stopped(from_ns: u64, to_ns: u64) {
    if let Some(told) = STOPPED.get() {
        told(from_ns, to_ns);
    }
}

/// This thread has waited for a permit.
pub fn waited(from_ns: u64, to_ns: u64) {
    if let Some(told) = TOLD.get() {
        told(from_ns, to_ns);
    }
}
