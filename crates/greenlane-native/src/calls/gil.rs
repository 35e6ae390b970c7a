//! Waits for the GIL, exactly: the interpreter waits for it in `pthread_cond_timedwait`, and nowhere else.
//!
//! In CPython 3.11 to 3.13 only `take_gil` calls that function, and only `drop_gil` calls `pthread_cond_wait` (a thread
//! that was asked for the GIL waits until somebody has it). Libraries linked into the interpreter may call them too, so
//! the condition must lie in the interpreter's own state, `_PyRuntime`. A subinterpreter with a GIL of its own keeps it
//! elsewhere: its waits are not seen.
//!
//! `take_gil` waits one switch interval at a time. The pieces are put together: the flag `locked`, which lies before the
//! condition and is guarded by the mutex that is held when the wait returns, says whether it will wait on.

use super::originals::real;
use super::redirected::Errno;
use super::symbols;
use crate::clock;
use crate::record::{on, sampler, strand};
use libc::{c_int, pthread_cond_t, pthread_mutex_t, timespec};
use std::cell::Cell;
use std::mem::transmute;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// `struct _gil_runtime_state`: last holder, locked, switch number, condition, mutex.
const HOLDER_BEFORE: usize = 24;
const LOCKED_BEFORE: usize = 16;
/// A piece that begins later than this after the one before it is another wait.
const SAME_NS: u64 = 1_000_000;

const UNTRIED: u8 = 0;
const KNOWN: u8 = 1;
const FOREIGN: u8 = 2;

/// The interpreter's state: from, to.
static RUNTIME: (AtomicUsize, AtomicUsize) = (AtomicUsize::new(0), AtomicUsize::new(0));
/// Whether the fields lie where we believe.
static LAYOUT: AtomicU8 = AtomicU8::new(UNTRIED);

thread_local! {
    /// A wait that goes on: (since when, end of its last piece, whether the sampler counts it); 0 = none.
    static PENDING: Cell<(u64, u64, bool)> = const { Cell::new((0, 0, false)) };
    static SAMPLER: Cell<bool> = const { Cell::new(false) };
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

fn is_gil(condition: usize) -> bool {
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
}

/// In the place of the C function of this name, in the interpreter.
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's call, as it is.
    unsafe {
        let real: unsafe extern "C-unwind" fn(
            *mut pthread_cond_t,
            *mut pthread_mutex_t,
            *const timespec,
        ) -> c_int = transmute(real(symbols::COND_TIMEDWAIT));
        let address = condition as usize;
        if !on() || !is_gil(address) {
            return real(condition, mutex, until);
        }
        if LAYOUT.load(Ordering::Relaxed) == UNTRIED {
            look_at_layout(address, mutex as usize);
        }
        if SAMPLER.get() {
            let result = real(condition, mutex, until);
            if LAYOUT.load(Ordering::Relaxed) == KNOWN {
                sampler::got_from(holder(address));
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
            let said = sampler::waits(from_ns, to_ns, said, holder(address));
            PENDING.set((from_ns, to_ns, said));
        } else {
            if said {
                sampler::waited();
            }
            strand::gil_waited(from_ns, to_ns);
        }
        errno.put_back();
        result
    }
}

/// In the place of the C function of this name, in the interpreter.
pub unsafe extern "C-unwind" fn pthread_cond_wait(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's call, as it is.
    unsafe {
        let real: unsafe extern "C-unwind" fn(*mut pthread_cond_t, *mut pthread_mutex_t) -> c_int =
            transmute(real(symbols::COND_WAIT));
        if !on() || !is_gil(condition as usize) || SAMPLER.get() {
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
