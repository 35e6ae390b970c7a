//! What a wait is for, by the Python functions that wait in it: a lock's wait may be a queue's, or a future's.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCode;
use std::sync::{Arc, Mutex, PoisonError};

/// The standard library waits no deeper below the function that was called.
const MOST_FRAMES: usize = 8;

/// (code object, kind); the code is never freed.
type Kinds = Vec<(usize, u8)>;
static KNOWN: Mutex<Option<Arc<Kinds>>> = Mutex::new(None);

/// Waits inside of `code` are of `kind` from now on.
pub fn know(code: &Bound<'_, PyCode>, kind: u8) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let address = code.as_ptr() as usize;
    let mut kinds = known.as_deref().cloned().unwrap_or_default();
    if kinds.iter().all(|&(each, _)| each != address) {
        kinds.push((code.clone().into_ptr() as usize, kind));
        *known = Some(Arc::new(kinds));
    }
}

/// The kind of the outermost known caller; `otherwise` without one.
pub fn kind_or(otherwise: u8) -> u8 {
    within(MOST_FRAMES).unwrap_or(otherwise)
}

/// The kind of the function that made this call, if it is known.
pub fn direct() -> Option<u8> {
    within(1)
}

/// Whether this call is `threading`'s way to wait for an event or for something in a queue: nobody has what it waits for.
/// A semaphore's way is the same, and its places are held by others.
pub fn wait_for_an_event() -> bool {
    // SAFETY: the thread is attached: this is within a call. Borrowed, or null; the one behind it is ours.
    unsafe {
        let waits = ffi::PyEval_GetFrame();
        if waits.is_null() || !is_function(waits, "Condition.wait") {
            return false;
        }
        let asks = ffi::PyFrame_GetBack(waits);
        let of_semaphore = !asks.is_null() && is_function(asks, "Semaphore.acquire");
        ffi::Py_XDECREF(asks.cast());
        !of_semaphore
    }
}

unsafe fn is_function(frame: *mut ffi::PyFrameObject, name: &str) -> bool {
    // SAFETY: a frame, with the GIL.
    unsafe {
        let py = Python::assume_attached();
        let code = Bound::from_owned_ptr(py, ffi::PyFrame_GetCode(frame).cast());
        let is = |qualname: Bound<'_, PyAny>| qualname.extract::<&str>().is_ok_and(|is| is == name);
        code.getattr(pyo3::intern!(py, "co_qualname")).is_ok_and(is)
    }
}

fn within(most: usize) -> Option<u8> {
    // Not held while frames are made: that may collect garbage, and a finalizer may come here again.
    let known = KNOWN
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone()?;
    let mut found = None;
    // SAFETY: the thread is attached: this is within a call. Frames and codes are held while they are looked at; the
    // last reference to a code is its function's, which runs.
    unsafe {
        let mut frame = ffi::PyEval_GetFrame();
        ffi::Py_XINCREF(frame.cast());
        for _ in 0..most {
            if frame.is_null() {
                break;
            }
            let code = ffi::PyFrame_GetCode(frame);
            let kind = known.iter().find(|each| each.0 == code as usize);
            found = kind.map(|each| each.1).or(found);
            ffi::Py_DECREF(code.cast());
            let back = ffi::PyFrame_GetBack(frame);
            ffi::Py_DECREF(frame.cast());
            frame = back;
        }
        ffi::Py_XDECREF(frame.cast());
    }
    found
}
