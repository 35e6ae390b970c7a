//! Jobs that wait for a lock, a queue or a future. One of those who stand still may have what they wait for: the first to
//! wait lets them all go, and nobody is stopped until the last one waits no more.
//!
//! Beginning to wait and beginning to stand still both happen with the GIL, so neither misses the other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, Weak};

static WAITING: AtomicUsize = AtomicUsize::new(0);
/// Under the GIL, nobody waits for it.
static STOPS: Mutex<Vec<Weak<dyn Stops>>> = Mutex::new(Vec::new());

/// Where phases stand still.
pub trait Stops: Send + Sync {
    /// Lets all of them go on.
    fn let_stopped_go(&self);
}

/// From now on a job that begins to wait lets those of `stops` go. With the GIL.
pub fn tell(stops: Weak<dyn Stops>) {
    let mut all = STOPS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|known| known.strong_count() > 0);
    all.push(stops);
}

/// Whether any job waits for a lock.
pub fn any_lock_waited_for() -> bool {
    WAITING.load(Ordering::Relaxed) != 0
}

/// A wait of a job for a lock.
pub struct LockWait(());

impl LockWait {
    /// A job begins to wait. With the GIL.
    pub fn begin() -> Self {
        WAITING.fetch_add(1, Ordering::Relaxed);
        let all = STOPS.lock().unwrap_or_else(PoisonError::into_inner);
        let stops: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
        drop(all);
        stops.iter().for_each(|one| one.let_stopped_go());
        Self(())
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        // In a forked child, those of other threads were forgotten.
        let fewer = |waiting: usize| waiting.checked_sub(1);
        let _ = WAITING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

/// In a forked child: those who waited are not there.
pub fn forked() {
    WAITING.store(0, Ordering::Relaxed);
}
