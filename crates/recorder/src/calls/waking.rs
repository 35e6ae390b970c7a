//! The time from a release of the GIL until the thread that waited for it goes on: nobody computes Python meanwhile.
//!
//! Whom the release wakes must get a core first, which takes long where another core sleeps. Hand-overs from and to our
//! own threads do not count. All but the totals is read and changed with the GIL's mutex held.

use greenlane_process::{clock, forks, our_threads};
use std::sync::atomic::{AtomicU64, Ordering};

/// How many threads wait for the GIL, below the fork generation that they are of.
static WAITERS: AtomicU64 = AtomicU64::new(0);
const ONE_GENERATION: u64 = 1 << 32;
/// When a thread of the program last released it while somebody waited; 0 = our sampler did.
static RELEASED_NS: AtomicU64 = AtomicU64::new(0);
/// In all, and how often.
static WAKING_NS: AtomicU64 = AtomicU64::new(0);
static HAND_OVERS: AtomicU64 = AtomicU64::new(0);

/// Those of this process: a forked child has none of its parent's.
fn waiters() -> u64 {
    let waiters = WAITERS.load(Ordering::Relaxed);
    match forks::generation() == waiters / ONE_GENERATION {
        true => waiters % ONE_GENERATION,
        false => 0,
    }
}

fn set_waiters(count: u64) {
    WAITERS.store(
        forks::generation() * ONE_GENERATION + count,
        Ordering::Relaxed,
    );
}

/// The calling thread begins to wait.
pub fn waits() {
    set_waiters(waiters() + 1);
}

/// It does no longer; with `got`, since nobody has the GIL.
pub fn end_wait(got: bool, now_ns: u64) {
    set_waiters(waiters().saturating_sub(1));
    let released_ns = RELEASED_NS.load(Ordering::Relaxed);
    if got && released_ns != 0 && !our_threads::is_ours() {
        let waking_ns = now_ns.saturating_sub(released_ns);
        WAKING_NS.fetch_add(waking_ns, Ordering::Relaxed);
        HAND_OVERS.fetch_add(1, Ordering::Relaxed);
    }
}

/// The GIL is released. Cost: a load where nobody waits, else a look at the clock.
pub fn note_release() {
    if waiters() > 0 {
        let released_ns = match our_threads::is_ours() {
            true => 0,
            false => clock::monotonic_ns(),
        };
        RELEASED_NS.store(released_ns, Ordering::Relaxed);
    }
}

/// (ns in all, how often), since recording began.
pub fn totals() -> (u64, u64) {
    (
        WAKING_NS.load(Ordering::Relaxed),
        HAND_OVERS.load(Ordering::Relaxed),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_over_lasts_from_the_release_until_the_waiter_has_it_and_a_fork_leaves_no_waiters() {
        forks::watch();
        note_release(); // Nobody waits: no time is kept.
        assert_eq!(RELEASED_NS.load(Ordering::Relaxed), 0);
        waits();
        waits();
        note_release();
        let at_ns = RELEASED_NS.load(Ordering::Relaxed);
        assert!(at_ns > 0);
        end_wait(false, at_ns + 500); // Another one took it; it waits on.
        waits();
        end_wait(true, at_ns + 700);
        assert_eq!((waiters(), totals()), (1, (700, 1)));
        // SAFETY: the child only reads an atomic, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::try_from(waiters()).unwrap_or(-1));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(status, 0);
        }
        end_wait(false, at_ns + 900);
        assert_eq!(waiters(), 0);
    }
}
