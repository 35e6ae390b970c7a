//! How a call on one thread keeps the others from the GIL: looked at by a thread of ours while it runs.
//!
//! Each look takes the GIL for a moment. Its wait is what an event loop would have waited that woke up just then.

use crate::clock;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{Builder, Thread};
use std::time::Duration;

/// A GIL that is taken faster than this was free.
const FREE_NS: u64 = 60_000;
/// The function must have had time to begin.
const FIRST_NS: u64 = 200_000;
/// More looks tell nothing new. Looks become rarer so that they span a long call.
const MOST_LOOKS: usize = 256;

struct Shared {
    over: AtomicBool,
    /// Since when the present look waits; 0 = there is none.
    waiting_ns: AtomicU64,
    /// How long each look has waited.
    waits_ns: Mutex<Vec<u64>>,
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct GilLooks {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

#[pymethods]
impl GilLooks {
    #[new]
    fn new(every_ns: u64) -> Self {
        let shared = Arc::new(Shared {
            over: AtomicBool::new(false),
            waiting_ns: AtomicU64::new(0),
            waits_ns: Mutex::default(),
        });
        let theirs = Arc::clone(&shared);
        let made = Builder::new()
            .name("greenlane-looks".into())
            .stack_size(256 * 1024)
            .spawn(move || theirs.look_until_over(every_ns));
        Self {
            shared,
            // Without room for a thread nothing is seen.
            thread: made.ok().map(|handle| handle.thread().clone()),
        }
    }

    fn end(&self) -> (usize, usize, u64) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
        let waiting_ns = self.shared.waiting_ns.load(Ordering::Acquire);
        let mut waits_ns: Vec<u64> = self
            .shared
            .kept()
            .map_or_else(Vec::new, |kept| kept.clone());
        if waiting_ns > 0 {
            waits_ns.push(clock::monotonic_ns().saturating_sub(waiting_ns));
        }
        waits_ns.sort_unstable();
        let free = waits_ns.iter().filter(|&&wait_ns| wait_ns < FREE_NS);
        let (looks, free) = (waits_ns.len(), free.count());
        let long_ns = waits_ns.get((looks * 9 / 10).min(looks.saturating_sub(1)));
        (looks, free, long_ns.copied().unwrap_or(0))
    }
}

impl Shared {
    fn look_until_over(&self, every_ns: u64) {
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
                if let Some(mut kept) = self.kept() {
                    kept.push(wait_ns);
                }
            });
            if seen.is_none() {
                return; // The interpreter is ending.
            }
            pause_ns = every_ns << (look / 64).min(8);
        }
    }

    /// None = somebody has it: in a forked child that may be nobody any more.
    fn kept(&self) -> Option<MutexGuard<'_, Vec<u64>>> {
        match self.waits_ns.try_lock() {
            Ok(kept) => Some(kept),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
