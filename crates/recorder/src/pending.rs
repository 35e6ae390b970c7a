//! Whether this process is to record and has not begun: asked at its events and polls, which know no writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

static PENDING: AtomicBool = AtomicBool::new(false);
static BEGIN: OnceLock<fn()> = OnceLock::new();

/// Lets [`begin`] call `act`; the first one counts.
pub fn act_is(act: fn()) {
    let _ = BEGIN.set(act);
}

pub fn set(pending: bool) {
    PENDING.store(pending, Ordering::Relaxed);
}

/// Clears it. Returns whether it was pending.
pub fn take() -> bool {
    PENDING.swap(false, Ordering::Relaxed)
}

/// See the module.
#[inline]
pub fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed)
}

/// Starts writer and sampler of this process, if it is pending. Needs no GIL; keeps no `errno`.
#[inline]
pub fn begin() {
    if is_pending() {
        if let Some(act) = BEGIN.get() {
            act();
        }
    }
}
