//! Forks: whether this process is another one than a moment ago.
//!
//! A child has only the thread that forked. What other threads held or waited for is not its business, and a lock may
//! have been copied while one of them had it. So what belongs to one process is kept with its [`generation`], and made
//! again where that has changed. The generation counts up inside `fork()` itself, before any Python hook of the child.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::Once;

static GENERATION: AtomicU64 = AtomicU64::new(0);
static WATCHED: Once = Once::new();
/// Of this process, since [`watch`].
static PID: AtomicI32 = AtomicI32::new(0);

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
