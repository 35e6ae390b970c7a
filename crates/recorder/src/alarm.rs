//! What wakes the sampler: a futex, so that a thread inside the C library's code may call it.

use std::io::Error;
use std::sync::atomic::{AtomicU32, Ordering};

const FUTEX_WAIT: libc::c_int = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
const FUTEX_WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;

/// The word of a futex: not 0 while the sampler sleeps.
pub static ASLEEP: AtomicU32 = AtomicU32::new(0);
/// Values of it: a wait for the GIL wakes it, or it sleeps on.
pub const LIGHTLY: u32 = 1;
pub const TO_ITS_TIME: u32 = 2;

/// Makes the sampler look around now.
pub fn wake() {
    ASLEEP.store(0, Ordering::SeqCst);
    // SAFETY: the word is a static.
    unsafe { libc::syscall(libc::SYS_futex, ASLEEP.as_ptr(), FUTEX_WAKE, 1) };
}

/// Sleeps for `ns`, or until woken since [`ASLEEP`] became `how`. True: for all of it.
pub fn sleep(ns: u64, how: u32) -> bool {
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    // SAFETY: the word is a static, the time a local.
    let failed = unsafe {
        let (word, wait) = (ASLEEP.as_ptr(), FUTEX_WAIT);
        libc::syscall(libc::SYS_futex, word, wait, how, &raw const time) != 0
    };
    let slept = failed && Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT);
    ASLEEP.store(0, Ordering::Relaxed);
    slept
}
