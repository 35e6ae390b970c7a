//! Nanoseconds, and a thread that wakes on time.
//!
//! `epoll_pwait2` with the thread's timer slack at 1 ns. Measured on an idle core of a virtual machine, 2,000 wakes 1 ms
//! apart, lateness p50 / p99: slack as Linux gives it (50 us) 66 / 240 us; slack 1 ns 16 / 29 us; timerfd the same for
//! one system call more. A spin over the last 60 us gives 0 / 1 us for 44 us of CPU a wake, which a machine that also
//! runs the server does not have to spare; so there is none.

use rustix::thread::{current_timer_slack, set_current_timer_slack};
use rustix::time::{clock_gettime, ClockId};
use std::num::NonZeroU64;

/// CLOCK_MONOTONIC, as `time.monotonic_ns()`.
pub fn now_ns() -> u64 {
    of(ClockId::Monotonic)
}

/// CPU of this thread so far.
pub fn thread_cpu_ns() -> u64 {
    of(ClockId::ThreadCPUTime)
}

fn of(clock: ClockId) -> u64 {
    let at = clock_gettime(clock);
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// While it lives, this thread's sleeps end when they should, not up to 50 us later in company.
pub struct OnTime {
    before: Option<NonZeroU64>,
}

impl OnTime {
    pub fn new() -> Self {
        let before = current_timer_slack().ok().and_then(NonZeroU64::new);
        // Refused only by a sandbox: then sends leave 50 us later, which `begun_ns` shows.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        Self { before }
    }
}

impl Default for OnTime {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for OnTime {
    fn drop(&mut self) {
        let _ = set_current_timer_slack(self.before);
    }
}
