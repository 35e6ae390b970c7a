//! Waits for the GIL, exactly: the interpreter waits for it in `pthread_cond_timedwait`, and nowhere else.
//!
//! In CPython 3.11 to 3.15 only `take_gil` calls that function, and only `drop_gil` calls `pthread_cond_wait` (a thread
//! that was asked for the GIL waits until somebody has it). Libraries linked into the interpreter may call them too, so
//! the condition must lie in the interpreter's own state, `_PyRuntime`. A subinterpreter with a GIL of its own keeps it
//! elsewhere: its waits are not seen.
//!
//! `take_gil` waits one switch interval at a time. The pieces are put together: the flag `locked`, which lies before the
//! condition and is guarded by the mutex that is held when the wait returns, says whether it will wait on.

use super::errno::Errno;
use crate::{gil_waits, strand};
use greenlane_process::clock;
use libc::{c_int, pthread_cond_t, pthread_mutex_t, timespec};
use std::cell::Cell;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicUsize, Ordering};

/// `struct _gil_runtime_state`: last holder, locked, switch number, condition, mutex.
const HOLDER_BEFORE: usize = 24;
const LOCKED_BEFORE: usize = 16;
/// After so long the sampler asks for the GIL, instead of after a switch interval: see [`at_once`].
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

const UNTRIED: u8 = 0;
const KNOWN: u8 = 1;
const FOREIGN: u8 = 2;

/// The interpreter's state: from, to.
static RUNTIME: (AtomicUsize, AtomicUsize) = (AtomicUsize::new(0), AtomicUsize::new(0));
/// Whether the fields lie where we believe.
static LAYOUT: AtomicU8 = AtomicU8::new(UNTRIED);
/// The GIL's condition, once it is known that they do; 0 = not yet.
static CONDITION: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// A wait that goes on: (since when, end of its last piece, whether the sampler counts it); 0 = none.
    static PENDING: Cell<(u64, u64, bool)> = const { Cell::new((0, 0, false)) };
    static SAMPLER: Cell<bool> = const { Cell::new(false) };
    static AT_ONCE: Cell<bool> = const { Cell::new(false) };
    static KEEPING: Cell<(Kept, Kept)> = const { Cell::new((NOBODY, NOBODY)) };
}

/// Who had the GIL without a pause while the sampler waited for it: state, from, to.
#[derive(Clone, Copy)]
pub struct Kept {
    pub state: usize,
    pub from_ns: u64,
    pub to_ns: u64,
}

const NOBODY: Kept = Kept {
    state: 0,
    from_ns: 0,
    to_ns: 0,
};

impl Kept {
    pub fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// Conditions in these bytes are the GIL's.
pub fn runtime_is(address: usize, bytes: usize) {
    RUNTIME.0.store(address, Ordering::Relaxed);
    RUNTIME.1.store(address + bytes, Ordering::Relaxed);
}

/// The calling thread is the sampler's: its waits are nobody's.
pub fn is_sampler() {
    SAMPLER.set(true);
}

/// Whether the calling thread, the sampler's, takes the GIL from the thread that has it now. Waiting for a switch
/// interval it would get it from the first that gives it up by itself, and never see what computes for less than the
/// interval.
pub fn at_once(now: bool) {
    AT_ONCE.set(now);
    KEEPING.set((NOBODY, NOBODY));
}

/// Who kept the GIL for longest since [`at_once`] while the calling thread, the sampler's, asked for it.
pub fn kept() -> Kept {
    KEEPING.get().1
}

/// The sampler waits for what `state` has.
fn keeps(state: usize, from_ns: u64, to_ns: u64) {
    let (mut now, mut longest) = KEEPING.get();
    if now.state != state || now.to_ns + SAME_NS < from_ns {
        now = Kept {
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

/// Whether a condition is the GIL's.
pub fn is_gil(condition: usize) -> bool {
    (RUNTIME.0.load(Ordering::Relaxed)..RUNTIME.1.load(Ordering::Relaxed)).contains(&condition)
}

/// The flag `locked`, with the mutex held.
unsafe fn is_locked(condition: usize) -> bool {
    // SAFETY: in `_PyRuntime`, before the condition.
    unsafe { ((condition - LOCKED_BEFORE) as *const i32).read_volatile() == 1 }
}

/// The `PyThreadState` that has the GIL, or had it last; with the mutex held.
unsafe fn holder(condition: usize) -> usize {
    // SAFETY: in `_PyRuntime`, before the condition.
    unsafe { ((condition - HOLDER_BEFORE) as *const usize).read_volatile() }
}

/// `take_gil` calls with the mutex held while `locked` is 1: if it is not, the fields lie elsewhere.
#[cold]
fn look_at_layout(condition: usize, mutex: usize) {
    let beside = mutex == condition + size_of::<pthread_cond_t>();
    // SAFETY: as in `is_locked`.
    let layout = if beside && unsafe { is_locked(condition) } {
        KNOWN
    } else {
        FOREIGN
    };
    LAYOUT.store(layout, Ordering::Relaxed);
    if layout == KNOWN {
        CONDITION.store(condition, Ordering::Relaxed);
    }
}

/// The `PyThreadState` that has the GIL now, 0 = none has; None: where that stands is not known. Takes nothing and waits
/// for nothing: true a moment ago.
pub fn has_it() -> Option<usize> {
    let condition = CONDITION.load(Ordering::Relaxed);
    if condition == 0 {
        return None;
    }
    // SAFETY: in `_PyRuntime`, which lives as long as the process; seen there by `look_at_layout`. The interpreter
    // writes both fields atomically, or with its mutex held, as wholes.
    let (locked, holder) = unsafe {
        (
            AtomicI32::from_ptr((condition - LOCKED_BEFORE) as *mut i32),
            AtomicUsize::from_ptr((condition - HOLDER_BEFORE) as *mut usize),
        )
    };
    let has = locked.load(Ordering::Relaxed) == 1;
    Some(if has {
        holder.load(Ordering::Relaxed)
    } else {
        0
    })
}

/// Whether a wait for the GIL would tell where its fields stand.
pub fn may_be_seen() -> bool {
    RUNTIME.0.load(Ordering::Relaxed) != 0 && LAYOUT.load(Ordering::Relaxed) == UNTRIED
}

/// Waits as `pthread_cond_timedwait` does, for the GIL.
///
/// # Safety
/// [`is_gil`] of the condition; the rest is the caller's call.
pub unsafe fn wait_until(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
    real: TimedWait,
) -> c_int {
    // SAFETY: the caller's call, as it is.
    unsafe {
        let address = condition as usize;
        if LAYOUT.load(Ordering::Relaxed) == UNTRIED {
            look_at_layout(address, mutex as usize);
        }
        if SAMPLER.get() {
            let shortened = soon(*until);
            let until = if AT_ONCE.get() { &shortened } else { until };
            let known = LAYOUT.load(Ordering::Relaxed) == KNOWN;
            let (has_it, from_ns) = (holder(address), clock::monotonic_ns());
            let result = real(condition, mutex, until);
            if known {
                gil_waits::got_from(holder(address));
                keeps(has_it, from_ns, clock::monotonic_ns());
            }
            return result;
        }
        let errno = Errno::keep();
        let now_ns = clock::monotonic_ns();
        let (pending_ns, ended_ns, said) = PENDING.take();
        let goes_on = pending_ns != 0 && now_ns.saturating_sub(ended_ns) < SAME_NS;
        let from_ns = if goes_on { pending_ns } else { now_ns };
        errno.put_back();
        let result = real(condition, mutex, until);
        let errno = Errno::keep();
        let to_ns = clock::monotonic_ns();
        let waits_on = LAYOUT.load(Ordering::Relaxed) == KNOWN && is_locked(address);
        if waits_on {
            let said = gil_waits::waits(from_ns, to_ns, said, holder(address));
            PENDING.set((from_ns, to_ns, said));
        } else {
            if said {
                gil_waits::waited();
            }
            strand::gil_waited(from_ns, to_ns);
        }
        errno.put_back();
        result
    }
}

/// Waits as `pthread_cond_wait` does, until somebody has taken the GIL; as [`wait_until`].
///
/// # Safety
/// As there.
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
        strand::gil_waited(from_ns, clock::monotonic_ns());
        errno.put_back();
        result
    }
}
