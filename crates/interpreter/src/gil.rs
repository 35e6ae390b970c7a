//! Who has the GIL, read from the interpreter's state without taking it.
//!
//! CPython 3.11 to 3.15 keep it in `_PyRuntime`, at another place in each version: `last_holder`, `locked`, a count, the
//! condition and the mutex by which it is waited for, and those by which who was asked for it waits for the next one. The
//! place is found: it is where the first two are true of two threads, one after the other.

use greenlane_process::our_threads;
use greenlane_process::signals::with_all_blocked;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// Of `last_holder`; 0 = not known, [`NOWHERE`] = not to be found.
static HOLDER: AtomicUsize = AtomicUsize::new(0);
const NOWHERE: usize = usize::MAX;
const WORD: usize = size_of::<usize>();
/// From `last_holder` to the conditions.
const CONDITION: usize = 3 * WORD;
const SWITCHED: usize =
    CONDITION + size_of::<libc::pthread_cond_t>() + size_of::<libc::pthread_mutex_t>();

/// The `PyThreadState` that has the GIL, 0 = none has; None: where that stands is not known. True a moment ago.
pub fn holder() -> Option<usize> {
    match HOLDER.load(Ordering::Relaxed) {
        0 | NOWHERE => None,
        place => Some(holder_at(place)),
    }
}

/// The `PyThreadState` that has it, or had it last; 0 where that stands is not known.
pub fn last_holder() -> usize {
    match HOLDER.load(Ordering::Relaxed) {
        0 | NOWHERE => 0,
        // SAFETY: as in `holder_at`.
        place => unsafe { AtomicUsize::from_ptr(place as *mut usize).load(Ordering::Relaxed) },
    }
}

/// Whether it is the condition by which threads wait for the GIL.
#[inline]
pub fn is_condition(address: usize) -> bool {
    address.wrapping_sub(HOLDER.load(Ordering::Relaxed)) == CONDITION
}

/// Whether it is the one by which a thread that was asked for the GIL waits until another one has it.
#[inline]
pub fn is_switched(address: usize) -> bool {
    address.wrapping_sub(HOLDER.load(Ordering::Relaxed)) == SWITCHED
}

/// Looks for the place, once, where there is a GIL. Takes some 0.1 ms, without it.
pub fn find(py: Python<'_>) {
    if HOLDER.load(Ordering::Relaxed) != 0 || !crate::gil_enabled(py).unwrap_or(false) {
        return;
    }
    let mut places = match crate::is_known(py) {
        Ok(true) => places(),
        _ => Vec::new(),
    };
    places.retain(|&place| holder_at(place) == this_state(py));
    let mut places = py.detach(|| {
        let look = move || {
            our_threads::mark();
            Python::try_attach(|py| places.retain(|&place| holder_at(place) == this_state(py)));
            places
        };
        with_all_blocked(|| std::thread::Builder::new().spawn(look))
            .map(|thread| thread.join().unwrap_or_default())
            .unwrap_or_default()
    });
    places.retain(|&place| holder_at(place) == this_state(py));
    let place = match places[..] {
        [place] => place,
        _ => NOWHERE,
    };
    HOLDER.store(place, Ordering::Relaxed);
}

/// The calling thread's `PyThreadState`, only to be compared.
fn this_state(_attached: Python<'_>) -> usize {
    // SAFETY: attached.
    unsafe { ffi::PyThreadState_Get() as usize }
}

fn holder_at(place: usize) -> usize {
    // SAFETY: within `_PyRuntime`, which lives as long as the process. The interpreter writes both as wholes.
    let (holder, locked) = unsafe {
        (
            AtomicUsize::from_ptr(place as *mut usize).load(Ordering::Relaxed),
            AtomicI32::from_ptr((place + WORD) as *mut i32).load(Ordering::Relaxed),
        )
    };
    if locked == 1 {
        holder
    } else {
        0
    }
}

/// Every word of `_PyRuntime`.
fn places() -> Vec<usize> {
    const WITH_SYMBOL: libc::c_int = 1;
    // SAFETY: look-ups by name and by address; what they give belongs to the linker and stays.
    unsafe {
        let runtime = libc::dlsym(libc::RTLD_DEFAULT, c"_PyRuntime".as_ptr());
        let mut symbol: *const libc::Elf64_Sym = std::ptr::null();
        let mut about: libc::Dl_info = std::mem::zeroed();
        let found = (&raw mut symbol).cast();
        if runtime.is_null() || libc::dladdr1(runtime, &raw mut about, found, WITH_SYMBOL) == 0 {
            return Vec::new();
        }
        let bytes = symbol.as_ref().map_or(0, |symbol| symbol.st_size as usize);
        let start = runtime as usize;
        (start..(start + bytes).saturating_sub(2 * WORD))
            .step_by(WORD)
            .collect()
    }
}
