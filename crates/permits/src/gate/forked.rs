//! A gate that survives forks.
//!
//! A child leaves the copy of the gate alone and makes its own when it first needs one: the gate's mutex may have been
//! copied while another thread had it.
//!
//! Why not hold the mutex over the fork: between our hook before the fork and the fork itself other hooks run (logging
//! takes its locks), they may give up the GIL, and a thread that takes it and then waits for the mutex would stop all.

use super::state::Gate;
use greenlane_process::forks::{generation, watch};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// One renewal at a time, should the child have started threads already.
static RENEWING: Mutex<()> = Mutex::new(());

/// See the module.
pub struct ForkedGate {
    gate: AtomicPtr<Gate>,
    generation: AtomicU64,
}

impl ForkedGate {
    pub fn new(gate: Gate) -> Self {
        watch();
        Self {
            gate: AtomicPtr::new(Box::into_raw(Box::new(gate))),
            generation: AtomicU64::new(generation()),
        }
    }

    /// The gate of this process.
    pub fn get(&self) -> &Gate {
        if self.generation.load(Ordering::Acquire) != generation() {
            self.renew();
        }
        // SAFETY: the pointer comes from a Box, and what it pointed to before a renewal is never freed.
        unsafe { &*self.gate.load(Ordering::Acquire) }
    }

    fn renew(&self) {
        let _one_at_a_time = RENEWING.lock().unwrap_or_else(PoisonError::into_inner);
        let now = generation();
        if self.generation.load(Ordering::Acquire) == now {
            return;
        }
        // SAFETY: as in `get`; only atomics and plain configuration of the copied gate are read, never its mutex.
        let copied = unsafe { &*self.gate.load(Ordering::Acquire) };
        // The copy is left to the end of the process: its mutex may be locked for ever.
        self.gate.store(
            Box::into_raw(Box::new(copied.empty_copy())),
            Ordering::Release,
        );
        self.generation.store(now, Ordering::Release);
    }
}

impl Drop for ForkedGate {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a Box and is not used after this. It is dropped without touching its mutex.
        drop(unsafe { Box::from_raw(*self.gate.get_mut()) });
    }
}
