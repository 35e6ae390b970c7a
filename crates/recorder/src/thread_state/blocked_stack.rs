//! Where a loop's thread was when a call blocked all of it.
//!
//! The call is seen in C, without the GIL, when it returns. Its Python stack is looked at a moment later, by a pending
//! call of the interpreter, which runs before the next instruction: on the main thread, where pending calls run. Other
//! threads' calls have no stack. Short calls are many, and a look costs as much as a tenth of one: some have none, and
//! who reads the recording shares them out among the places that were seen.

use super::state::emit;
use crate::{frames, names};
use greenlane_process::forks;
use greenlane_recording_format::event::Event;
use pyo3::ffi;
use pyo3::Python;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The last call that was seen. Written and read by the main thread only.
static UNIT: AtomicU32 = AtomicU32::new(0);
static JOB: AtomicU64 = AtomicU64::new(0);
static FROM_NS: AtomicU64 = AtomicU64::new(0);
static TO_NS: AtomicU64 = AtomicU64::new(0);

/// Time in shorter calls since the last one that was looked at, and how much of it makes the next look due.
static PASSED_NS: AtomicU64 = AtomicU64::new(0);
static DUE_NS: AtomicU64 = AtomicU64::new(APART_NS);

/// Every call this long is looked at; of shorter ones, one in so much time, more or less.
const LONG_NS: u64 = 1_000_000;
const APART_NS: u64 = 2_000_000;
/// Makes a clock's last digits look random.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// This thread's loop was blocked by `unit` from `from_ns` to `to_ns`.
pub fn sample_stack(unit: u32, job: u64, from_ns: u64, to_ns: u64) {
    // SAFETY: no arguments, no failure.
    let is_main = unsafe { libc::gettid() == libc::getpid() };
    if !is_main || !forks::is_own_process() {
        return;
    }
    let took_ns = to_ns.saturating_sub(from_ns);
    if took_ns < LONG_NS {
        let passed_ns = PASSED_NS.load(Ordering::Relaxed).saturating_add(took_ns);
        let due = passed_ns >= DUE_NS.load(Ordering::Relaxed);
        PASSED_NS.store(if due { 0 } else { passed_ns }, Ordering::Relaxed);
        if !due {
            return;
        }
        // Uneven: calls that come in a rhythm are all seen.
        let chance_ns = (to_ns.wrapping_mul(MIX) >> 32) % APART_NS;
        DUE_NS.store(APART_NS / 2 + chance_ns, Ordering::Relaxed);
    }
    UNIT.store(unit, Ordering::Relaxed);
    JOB.store(job, Ordering::Relaxed);
    FROM_NS.store(from_ns, Ordering::Relaxed);
    let waiting = TO_NS.swap(to_ns, Ordering::Relaxed) != 0;
    if !waiting {
        // SAFETY: allowed from any thread, with or without the GIL. A full queue means that there is no stack.
        let failed = unsafe { ffi::Py_AddPendingCall(Some(look), std::ptr::null_mut()) };
        if failed != 0 {
            TO_NS.store(0, Ordering::Relaxed);
        }
    }
}

extern "C" fn look(_nothing: *mut c_void) -> c_int {
    let to_ns = TO_NS.swap(0, Ordering::Relaxed);
    // SAFETY: pending calls run with the GIL. Not `attach`, which panics at the interpreter's end.
    let stack = frames::stack_here(unsafe { Python::assume_attached() });
    if let Some(stack) = stack.filter(|_| to_ns != 0) {
        emit(Event::Stack {
            at_ns: to_ns,
            unit: UNIT.load(Ordering::Relaxed),
            job: JOB.load(Ordering::Relaxed),
            weight_ns: to_ns.saturating_sub(FROM_NS.load(Ordering::Relaxed)),
            stack: names::text(&stack),
            kept_ns: 0,
        });
    }
    0
}
