//! What the threads that record, the sampler and the writer share: the rings, and how far the writer is.

use crate::live::Live;
use crate::pending;
use crate::ring::Ring;
use greenlane_process::forks;
use greenlane_recording_format::event::Text;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// What the recorder of this process shares with its writer. Made again in a forked child; the copy is left alone.
pub struct ThreadRegistry {
    generation: u64,
    /// Shared as a whole: to count each ring's users would take its cache line from the thread that writes it.
    rings: Mutex<Arc<Vec<Arc<Ring>>>>,
    pub thread: Mutex<Option<JoinHandle<()>>>,
    pub stop: AtomicBool,
    /// The writer writes no more: it was stopped, or it failed.
    pub over: AtomicBool,
    /// Rounds asked for and done: `flush` waits for its own.
    pub asked: AtomicU64,
    pub done: Mutex<u64>,
    pub round: Condvar,
    /// Names of threads by their number in the system, as far as Python has told.
    pub thread_names: Mutex<HashMap<u32, Text>>,
    pub live: Mutex<Live>,
    /// Marks that the writer has not met, in monotonic ns. Not in a ring: our own threads have none, and set some.
    pub marks: Mutex<Vec<(u64, Text)>>,
    pub state: Mutex<WriterStatus>,
    /// The JSON that describes the process, as it is now.
    pub about: AtomicU32,
}

/// What `stats` tells.
#[derive(Default, Clone)]
pub struct WriterStatus {
    pub running: bool,
    pub events: u64,
    pub lost: u64,
    pub written_bytes: u64,
    pub failed: u64,
    pub error: Option<String>,
    pub process: u64,
}

static REGISTRY: AtomicPtr<ThreadRegistry> = AtomicPtr::new(ptr::null_mut());
pub static WAKE: AtomicBool = AtomicBool::new(false);

/// The registry of this process.
pub fn registry() -> &'static ThreadRegistry {
    loop {
        let known = REGISTRY.load(Ordering::Acquire);
        // SAFETY: null, or from a Box that is never freed.
        if let Some(registry) = unsafe { known.as_ref() } {
            if registry.generation == forks::generation() {
                return registry;
            }
        }
        forks::watch();
        let fresh = Box::into_raw(Box::new(ThreadRegistry {
            generation: forks::generation(),
            rings: Mutex::default(),
            thread: Mutex::default(),
            stop: AtomicBool::new(false),
            over: AtomicBool::new(true),
            asked: AtomicU64::new(0),
            done: Mutex::new(0),
            round: Condvar::new(),
            thread_names: Mutex::default(),
            live: Mutex::default(),
            marks: Mutex::default(),
            state: Mutex::default(),
            about: AtomicU32::new(0),
        }));
        if REGISTRY
            .compare_exchange(known, fresh, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: nobody has seen it.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A ring to be drained from now on, until it is over.
pub fn register(ring: &Arc<Ring>) {
    let mut rings = lock(&registry().rings);
    Arc::make_mut(&mut rings).push(Arc::clone(ring));
    drop(rings);
    pending::begin();
}

/// All rings, of threads that run and that have just ended.
pub fn rings() -> Arc<Vec<Arc<Ring>>> {
    Arc::clone(&lock(&registry().rings))
}

/// Forgets the rings of threads that have ended, once they are empty.
pub fn forget_ended() {
    let mut rings = lock(&registry().rings);
    if rings.iter().any(|ring| ring.is_over()) {
        Arc::make_mut(&mut rings).retain(|ring| !ring.is_over());
    }
}

/// Wakes the writer; once a round.
pub fn wake() {
    if !WAKE.swap(true, Ordering::Relaxed) {
        // Held by somebody: the writer starts, or ends, and looks into the rings anyway.
        if let Ok(thread) = registry().thread.try_lock() {
            if let Some(thread) = thread.as_ref() {
                thread.thread().unpark();
            }
        }
    }
}
