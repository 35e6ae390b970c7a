//! Which threads have a thread state, without touching thread-local memory.
//!
//! A redirected `write` may run in a signal handler, on a thread whose thread-local memory has not been allocated yet;
//! to allocate it there could deadlock. So a call first asks this table, which is fixed and only atomics.

use greenlane_process::forks;
use std::sync::atomic::{AtomicUsize, Ordering};

const PLACES: usize = 4096;
/// A thread is at one of this many adjacent places; with all of them taken it stays unknown.
const TRIES: usize = 16;

static KNOWN: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];

/// Whether the calling thread has a thread state.
#[inline]
pub fn is_known() -> bool {
    let own = own();
    places(own).any(|place| place.load(Ordering::Relaxed) == own)
}

/// The calling thread has a thread state from now on.
pub fn know() {
    let own = own();
    if is_known() {
        return;
    }
    for place in places(own) {
        if place
            .compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            return;
        }
    }
}

/// The calling thread ends.
pub fn forget() {
    let own = own();
    for place in places(own) {
        let _ = place.compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A number for the calling thread. A forked child's thread is another one: its thread state was the parent's.
#[inline]
fn own() -> usize {
    // SAFETY: without arguments; reads a register.
    let thread = unsafe { libc::pthread_self() as usize };
    // Handles are aligned to 64 bytes; the lowest bit keeps the number from being 0.
    thread ^ (forks::generation() as usize & 0x1f) << 1 | 1
}

#[inline]
fn places(thread: usize) -> impl Iterator<Item = &'static AtomicUsize> {
    // Stacks lie megabytes apart; the multiplier spreads them.
    let first = (thread >> 6).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
    (0..TRIES).map(move |step| &KNOWN[(first + step) % PLACES])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_is_known_by_itself() {
        know();
        assert!(is_known());
        std::thread::spawn(|| {
            assert!(!is_known());
            know();
            know();
            forget();
            assert!(!is_known());
        })
        .join()
        .unwrap();
        assert!(is_known());
        forget();
    }
}
