//! Waits for the GIL, exactly: the interpreter waits for it in `pthread_cond_timedwait`, and nowhere else.
//!
//! In CPython 3.11 to 3.15 only `take_gil` calls that function, and only `drop_gil` calls `pthread_cond_wait` (a thread
//! that was asked for the GIL waits until somebody has it). Others call them too: what counts is the condition. A
//! subinterpreter with a GIL of its own has others: its waits are not seen.
//!
//! `take_gil` waits one switch interval at a time. The pieces are put together: if the GIL has a holder when the wait
//! returns, with the mutex, it will wait on.

use super::errno::Errno;
use super::waking;
use crate::{gil_waits, thread_state};
use greenlane_interpreter::gil;
use greenlane_process::clock;
use libc::{c_int, pthread_cond_t, pthread_mutex_t, timespec};
use std::cell::Cell;

/// After so long the sampler asks for the GIL, instead of after a switch interval: see [`take_immediately`].
const ASKS_AFTER_NS: i64 = 50_000;
/// A piece that begins later than this after the one before it is another wait.
const SAME_NS: u64 = 1_000_000;

/// The C functions themselves.
pub type Wait = unsafe extern "C-unwind" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int;
pub type TimedWait = unsafe extern "C-unwind" fn(
    *mut pthread_cond_t,
    *mut pthread_mutex_t,
    *const timespec,
) -> c_int;

thread_local! {
    /// A wait that goes on: (since when, end of its last piece, whether the sampler counts it); 0 = none.
    static PENDING: Cell<(u64, u64, bool)> = const { Cell::new((0, 0, false)) };
    static SAMPLER: Cell<bool> = const { Cell::new(false) };
    static AT_ONCE: Cell<bool> = const { Cell::new(false) };
    static KEEPING: Cell<(GilKeeper, GilKeeper)> = const { Cell::new((NOBODY, NOBODY)) };
}

/// Who had the GIL without a pause while the sampler waited for it: state, from, to.
#[derive(Clone, Copy)]
pub struct GilKeeper {
    pub state: usize,
    pub from_ns: u64,
    pub to_ns: u64,
}

const NOBODY: GilKeeper = GilKeeper {
    state: 0,
    from_ns: 0,
    to_ns: 0,
};

impl GilKeeper {
    pub fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// The calling thread is the sampler's: its waits are nobody's.
pub fn is_sampler() {
    SAMPLER.set(true);
}

/// Whether the calling thread, the sampler's, takes the GIL from the thread that has it now. Waiting for a switch
/// interval it would get it from the first that gives it up by itself, and never see what computes for less than the
/// interval.
pub fn take_immediately(now: bool) {
    AT_ONCE.set(now);
    KEEPING.set((NOBODY, NOBODY));
}

/// Who kept the GIL for longest since [`take_immediately`] while the calling thread, the sampler's, asked for it.
pub fn longest_keeper() -> GilKeeper {
    KEEPING.get().1
}

/// The sampler waits for what `state` has.
fn keeps(state: usize, from_ns: u64, to_ns: u64) {
    let (mut now, mut longest) = KEEPING.get();
    if now.state != state || now.to_ns + SAME_NS < from_ns {
        now = GilKeeper {
            state,
            from_ns,
            to_ns,
        };
    }
    now.to_ns = to_ns;
    if now.ns() >= longest.ns() {
        longest = now;
    }
    KEEPING.set((now, longest));
}

/// `until`, or a moment from now if that is earlier, on the clock that `until` is of.
fn soon(until: timespec) -> timespec {
    let ns = |time: &timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
    let left = |clock| {
        let mut now = timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: writes a local.
        unsafe { libc::clock_gettime(clock, &raw mut now) };
        ns(&until) - ns(&now)
    };
    // The interpreter's condition runs on the monotonic clock where it can; the two are years apart.
    let (monotonic, real) = (left(libc::CLOCK_MONOTONIC), left(libc::CLOCK_REALTIME));
    let left_ns = if monotonic.abs() < real.abs() {
        monotonic
    } else {
        real
    };
    let at_ns = ns(&until) - (left_ns - ASKS_AFTER_NS).max(0);
    timespec {
        tv_sec: at_ns / 1_000_000_000,
        tv_nsec: at_ns % 1_000_000_000,
    }
}

/// Waits as `pthread_cond_timedwait` does, for the GIL.
///
/// # Safety
/// [`gil::is_condition`] of the condition; the rest is the caller's call.
pub unsafe fn wait_until(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
    real: TimedWait,
) -> c_int {
    // SAFETY: the caller's call, as it is.
    unsafe {
        if SAMPLER.get() {
            let shortened = soon(*until);
            let until = if AT_ONCE.get() { &shortened } else { until };
            let (has_it, from_ns) = (gil::last_holder(), clock::monotonic_ns());
            let result = real(condition, mutex, until);
            gil_waits::got_from(gil::last_holder());
            keeps(has_it, from_ns, clock::monotonic_ns());
            return result;
        }
        let errno = Errno::keep();
        let now_ns = clock::monotonic_ns();
        let (pending_ns, ended_ns, said) = PENDING.take();
        let goes_on = pending_ns != 0 && now_ns.saturating_sub(ended_ns) < SAME_NS;
        let from_ns = if goes_on { pending_ns } else { now_ns };
        waking::waits();
        errno.restore();
        let result = real(condition, mutex, until);
        let errno = Errno::keep();
        let to_ns = clock::monotonic_ns();
        let has_it = gil::holder().unwrap_or(0);
        waking::end_wait(has_it == 0, to_ns);
        if has_it != 0 {
            let said = gil_waits::waits(from_ns, to_ns, said, has_it);
            PENDING.set((from_ns, to_ns, said));
        } else {
            if said {
                gil_waits::end_wait();
            }
            thread_state::gil_waited(from_ns, to_ns);
        }
        errno.restore();
        result
    }
}

/// Waits as `pthread_cond_wait` does, until somebody has taken the GIL; as [`wait_until`].
///
/// # Safety
/// [`gil::is_switched`] of the condition; the rest is the caller's call.
pub unsafe fn wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    real: Wait,
) -> c_int {
    // SAFETY: the caller's call, as it is.
    unsafe {
        if SAMPLER.get() {
            return real(condition, mutex);
        }
        let from_ns = clock::monotonic_ns();
        let result = real(condition, mutex);
        let errno = Errno::keep();
        thread_state::gil_waited(from_ns, clock::monotonic_ns());
        errno.restore();
        result
    }
}
