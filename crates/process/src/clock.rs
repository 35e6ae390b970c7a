//! Clocks, as integer nanoseconds.

use libc::{clockid_t, timespec};
use std::fs::File;
use std::io::Read;

/// Monotonic time, ns; the clock of Python's `time.monotonic_ns`. Cost: about 25 ns (vDSO).
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

/// CPU time of the calling thread, ns. Cost: one system call, 100 to 300 ns.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// The CPU clock of the calling thread, readable from any other thread while this one lives.
pub fn cpu_clock_of_this_thread() -> clockid_t {
    let mut clock: clockid_t = 0;
    // SAFETY: pthread_self is always valid for the caller; the result is written into a live local.
    let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &mut clock) };
    if failed == 0 {
        clock
    } else {
        -1
    }
}

/// Reads `clock`, ns; None when it is gone (its thread has ended).
pub fn read(clock: clockid_t) -> Option<u64> {
    let mut now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime only writes into `now`, and reports an unknown clock by its return value.
    let failed = unsafe { libc::clock_gettime(clock, &mut now) };
    (failed == 0).then_some(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Whether that thread of this process waits for a core or has one, and so does not sleep; false where the kernel does
/// not tell. Its clock may stand all the same, for as long as the machine has others to run. Cost: some 20 us.
pub fn is_runnable(thread: libc::pid_t) -> bool {
    let mut line = [0; 128]; // "7 (its name) R ...", and a name is at most 16 bytes long.
    let read = File::open(format!("/proc/self/task/{thread}/stat"))
        .and_then(|mut file| file.read(&mut line))
        .unwrap_or(0);
    let line = &line[..read];
    let name_ends = line.iter().rposition(|&byte| byte == b')');
    name_ends.is_some_and(|at| line.get(at + 2) == Some(&b'R'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_computes_is_runnable_and_who_sleeps_is_not() {
        // SAFETY: gettid has no arguments and cannot fail.
        assert!(is_runnable(unsafe { libc::gettid() }));
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            // SAFETY: as above.
            let _ = tell.send(unsafe { libc::gettid() });
            stopped.recv()
        });
        let thread = told.recv().expect("it lives");
        let mut looks = (0..1000).map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            is_runnable(thread)
        });
        assert!(looks.any(|runnable| !runnable));
        drop(stop);
        assert!(sleeper.join().is_ok());
        assert!(!is_runnable(0));
    }
}
