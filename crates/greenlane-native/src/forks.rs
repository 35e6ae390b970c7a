//! A gate that survives forks.
//!
//! A child has only the thread that forked. Whatever other threads held or waited for at the gate is not its business,
//! and the gate's mutex may have been copied while one of them had it. So the child leaves the copy alone and makes a
//! gate of its own when it first needs one.
//!
//! Why not hold the mutex over the fork: between our hook before the fork and the fork itself other hooks run (logging
//! takes its locks), they may give up the GIL, and a thread that takes it and then waits for the mutex would stop all.
//! The generation counts up inside `fork()` itself, before any Python hook of the child.

use crate::gate::Gate;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

static GENERATION: AtomicU64 = AtomicU64::new(0);
static WATCHED: Once = Once::new();
/// Of this process, since [`watch`].
static PID: AtomicI32 = AtomicI32::new(0);
/// One renewal at a time, should the child have started threads already.
static RENEWING: Mutex<()> = Mutex::new(());

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    know_pid();
}

fn know_pid() {
    // SAFETY: no arguments, no failure.
    PID.store(unsafe { libc::getpid() }, Ordering::Relaxed);
}

/// Whether this memory is the calling process's own: not in the child of a `vfork`. A system call.
pub fn is_own_process() -> bool {
    // SAFETY: as above.
    PID.load(Ordering::Relaxed) == unsafe { libc::getpid() }
}

/// How often this process's line has forked; differs between a parent and its child.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Counts forks from now on.
pub fn watch() {
    WATCHED.call_once(|| {
        know_pid();
        // SAFETY: the handler only adds to an atomic, which is allowed in a forked child. A failure (no memory)
        // leaves children with what was copied, as without this module.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

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
            generation: AtomicU64::new(GENERATION.load(Ordering::Relaxed)),
        }
    }

    /// The gate of this process.
    pub fn get(&self) -> &Gate {
        if self.generation.load(Ordering::Acquire) != GENERATION.load(Ordering::Relaxed) {
            self.renew();
        }
        // SAFETY: the pointer comes from a Box, and what it pointed to before a renewal is never freed.
        unsafe { &*self.gate.load(Ordering::Acquire) }
    }

    fn renew(&self) {
        let _one_at_a_time = RENEWING.lock().unwrap_or_else(PoisonError::into_inner);
        let now = GENERATION.load(Ordering::Relaxed);
        if self.generation.load(Ordering::Acquire) == now {
            return;
        }
        // SAFETY: as in `get`; only atomics and plain configuration of the copied gate are read, never its mutex.
        let copied = unsafe { &*self.gate.load(Ordering::Acquire) };
        // The copy is left to the end of the process: its mutex may be locked for ever.
        self.gate
            .store(Box::into_raw(Box::new(copied.renewed())), Ordering::Release);
        self.generation.store(now, Ordering::Release);
    }
}

impl Drop for ForkedGate {
    fn drop(&mut self) {
        // SAFETY: the pointer comes from a Box and is not used after this. It is dropped without touching its mutex.
        drop(unsafe { Box::from_raw(*self.gate.get_mut()) });
    }
}
