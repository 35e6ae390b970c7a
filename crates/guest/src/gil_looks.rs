//! How a call on one thread keeps the others from the GIL: measured by one of our threads while it runs.
//!
//! Each look takes the GIL for a moment. Its wait is what an event loop would have waited that woke up just then.

use greenlane_policy::gil_waits::{GilLook, GilWaits};
use greenlane_process::clock;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{Builder, Thread};
use std::time::Duration;

/// The function must have had time to begin.
const FIRST_NS: u64 = 200_000;
/// More looks add nothing. Looks become rarer, to span a long call.
const MOST_LOOKS: usize = 256;

struct LookQueue {
    over: AtomicBool,
    /// Since when the present look waits; 0 = there is none.
    waiting_ns: AtomicU64,
    looks: Mutex<Vec<GilLook>>,
    /// Between two looks, at first.
    every_ns: u64,
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct GilLooks {
    shared: Arc<LookQueue>,
    thread: Option<Thread>,
}

#[pymethods]
impl GilLooks {
    #[new]
    fn new(every_ns: u64) -> Self {
        let shared = Arc::new(LookQueue {
            over: AtomicBool::new(false),
            waiting_ns: AtomicU64::new(0),
            looks: Mutex::default(),
            every_ns,
        });
        let theirs = Arc::clone(&shared);
        let made = Builder::new()
            .name("greenlane-looks".into())
            .stack_size(256 * 1024)
            .spawn(move || theirs.look_until_over());
        Self {
            shared,
            // Without room for a thread nothing is seen.
            thread: made.ok().map(|handle| handle.thread().clone()),
        }
    }

    fn end(&self) -> (u64, u64, u64) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
        let waiting_ns = self.shared.waiting_ns.load(Ordering::Acquire);
        let mut looks: Vec<GilLook> = self
            .shared
            .lock_looks()
            .map_or_else(Vec::new, |kept| kept.clone());
        if waiting_ns > 0 {
            looks.push(GilLook {
                wait_ns: clock::monotonic_ns().saturating_sub(waiting_ns),
                pause_ns: self.shared.pause_ns(looks.len()),
            });
        }
        let waits = GilWaits::of(looks);
        (waits.seen_ns, waits.free_ns, waits.long_ns)
    }
}

impl LookQueue {
    /// After the look of that number, from 0.
    fn pause_ns(&self, look: usize) -> u64 {
        self.every_ns << (look / 64).min(8)
    }

    fn look_until_over(&self) {
        let mut pause_ns = FIRST_NS;
        for look in 0..MOST_LOOKS {
            std::thread::park_timeout(Duration::from_nanos(pause_ns));
            if self.over.load(Ordering::Acquire) {
                return;
            }
            let from_ns = clock::monotonic_ns();
            self.waiting_ns.store(from_ns, Ordering::Release);
            // Kept while the GIL is held: who asks for the looks has it too.
            let seen = Python::try_attach(|_| {
                let wait_ns = clock::monotonic_ns().saturating_sub(from_ns);
                self.waiting_ns.store(0, Ordering::Release);
                if let Some(mut kept) = self.lock_looks() {
                    kept.push(GilLook {
                        wait_ns,
                        pause_ns: self.pause_ns(look),
                    });
                }
            });
            if seen.is_none() {
                return; // The interpreter is ending.
            }
            pause_ns = self.pause_ns(look);
        }
    }

    /// None = another thread has it, which in a forked child may be gone.
    fn lock_looks(&self) -> Option<MutexGuard<'_, Vec<GilLook>>> {
        match self.looks.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
