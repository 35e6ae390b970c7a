//! Which of the interpreter's locks are held by threads that run jobs.
//!
//! A phase that begins while its thread holds a lock never queues for a permit, so nobody who waits for a permit holds
//! one: no priority inversion. Locks are known by their addresses, from an acquire within a job until their release, by
//! whomever, or their end. What a server's thread acquires between jobs is mostly a signal that there is work (its pool's
//! wake-up), and would count for ever. While nobody holds one, a release costs everybody a look at a counter.

use crate::running;
use crate::thread_view::{self, ThreadView};
use greenlane_process::numbers::NumberMap;
use pyo3::Python;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Holder {
    view: Arc<ThreadView>,
    /// Acquires of a lock that its holder may acquire again; 1 for any other.
    depth: usize,
}

/// By the lock's address; None while locks are not seen. Under the GIL, nobody waits for it.
static HOLDERS: Mutex<Option<NumberMap<usize, Holder>>> = Mutex::new(None);
/// How many there are.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Counts from now on, or no more: then nothing is held, and what is released later has not been counted.
pub fn count(counts: bool) {
    let mut holders = all();
    if counts == holders.is_some() {
        return;
    }
    for holder in holders.take().into_iter().flat_map(NumberMap::into_values) {
        holder.view.lock_given();
    }
    *holders = counts.then(NumberMap::default);
    HELD.store(0, Ordering::Relaxed);
}

/// Whether any lock is known to be held.
#[inline]
pub fn any() -> bool {
    HELD.load(Ordering::Relaxed) != 0
}

/// The calling thread has acquired `lock`, `times` times. Without a job, nothing is noted.
pub fn note_acquire(lock: usize, times: usize, recursive: bool) {
    if !running::has_job() {
        return;
    }
    let Some(view) = thread_view::thread_view() else {
        return;
    };
    let mut holders = all();
    let Some(holders) = holders.as_mut() else {
        return;
    };
    if let Some(holder) = holders.get_mut(&lock) {
        if recursive && Arc::ptr_eq(&holder.view, &view) {
            holder.depth += times;
            return;
        }
        // Somebody released it where we do not look.
        holder.view.lock_given();
    }
    view.lock_taken();
    holders.insert(lock, Holder { view, depth: times });
    HELD.store(holders.len(), Ordering::Relaxed);
}

/// What was known of a lock that is being released.
#[derive(Default)]
pub struct ReleasedLock(Option<Arc<ThreadView>>);

/// `lock` is about to be released. To be called before it is: afterwards it may be somebody else's already.
pub fn giving(lock: usize, recursive: bool, wholly: bool) -> ReleasedLock {
    let mut holders = all();
    let Some(holders) = holders.as_mut() else {
        return ReleasedLock(None);
    };
    let Some(holder) = holders.get_mut(&lock) else {
        return ReleasedLock(None);
    };
    if recursive {
        if !is_me(&holder.view) {
            return ReleasedLock(None); // A stranger's release raises.
        }
        if !wholly && holder.depth > 1 {
            holder.depth -= 1;
            return ReleasedLock(None);
        }
    }
    let view = holders.remove(&lock).map(|holder| holder.view);
    HELD.store(holders.len(), Ordering::Relaxed);
    ReleasedLock(view)
}

impl ReleasedLock {
    /// It has been released. If it was this thread's last one, its phase may owe a turn, and takes it now.
    pub fn settle(self, py: Python<'_>) {
        let Some(view) = self.0 else { return };
        view.lock_given();
        if view.deferred_turn_due() && is_me(&view) {
            if let Some(mut job) = running::take_job() {
                job.take_deferred_turn(py);
                running::put_job(job);
            }
        }
    }
}

/// `lock` is free, or is no more: its memory may become another lock's. Nobody's turn is taken here.
pub fn forget_lock(lock: usize) {
    let mut holders = all();
    let Some(holders) = holders.as_mut() else {
        return;
    };
    if let Some(holder) = holders.remove(&lock) {
        holder.view.lock_given();
        HELD.store(holders.len(), Ordering::Relaxed);
    }
}

fn is_me(owner: &Arc<ThreadView>) -> bool {
    thread_view::thread_view().is_some_and(|me| Arc::ptr_eq(&me, owner))
}

fn all() -> MutexGuard<'static, Option<NumberMap<usize, Holder>>> {
    HOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}
