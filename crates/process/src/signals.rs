//! Our threads get no signal: the process's are for its own threads.

use std::{mem, ptr};

/// Calls `start` with all signals blocked; a thread that it starts keeps them so.
pub fn with_all_blocked<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: the sets are locals that the calls fill; the mask is the calling thread's and is put back.
    unsafe {
        let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        result
    }
}
