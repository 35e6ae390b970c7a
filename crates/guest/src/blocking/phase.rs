//! The end of a phase around a call: `greenlane.phase.leave`, the call, `greenlane.phase.enter`.

use greenlane_permits::running;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyModule;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The names of `greenlane.phase`, where subscribers are bound; with the two that are looked up. Never freed.
static NAMES: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static LEAVE: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static ENTER: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// Whether somebody listens to threads without a job, too.
static ALL_THREADS: AtomicBool = AtomicBool::new(false);

/// Finds the module, once.
pub fn find(py: Python<'_>) -> PyResult<()> {
    if NAMES.load(Ordering::Acquire).is_null() {
        let names = PyModule::import(py, "greenlane.phase")?.dict();
        LEAVE.store(
            pyo3::types::PyString::intern(py, "leave").into_ptr(),
            Ordering::Release,
        );
        ENTER.store(
            pyo3::types::PyString::intern(py, "enter").into_ptr(),
            Ordering::Release,
        );
        NAMES.store(names.into_ptr(), Ordering::Release);
    }
    Ok(())
}

pub fn report_all(all_threads: bool) {
    ALL_THREADS.store(all_threads, Ordering::Relaxed);
}

/// Whether this thread's blocking calls are listened to.
#[inline]
pub fn is_heard() -> bool {
    ALL_THREADS.load(Ordering::Relaxed) || running::has_job()
}

/// Makes a blocking call between two phases. `call` gives a new reference, or null with an error set; `got` looks at it
/// before the next phase begins.
///
/// # Safety
/// The thread is attached to the main interpreter, no error is set.
#[allow(deprecated)] // The successors of PyErr_Fetch are of 3.12.
pub unsafe fn around(
    kind: u8,
    call: impl FnOnce() -> *mut PyObject,
    got: impl FnOnce(*mut PyObject),
) -> *mut PyObject {
    // SAFETY: as promised; references are held as long as they are used.
    unsafe {
        let number = ffi::PyLong_FromLong(kind.into());
        let result = if tell(&LEAVE, number) {
            call()
        } else {
            ptr::null_mut()
        };
        got(result);
        // An interrupt on the way out of `leave` meets `enter`, too; where nothing has been left it does nothing.
        let mut error = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        ffi::PyErr_Fetch(&mut error.0, &mut error.1, &mut error.2);
        let entered = tell(&ENTER, ptr::null_mut());
        ffi::Py_XDECREF(number);
        if entered {
            ffi::PyErr_Restore(error.0, error.1, error.2);
            return result;
        }
        for each in [error.0, error.1, error.2, result] {
            ffi::Py_XDECREF(each);
        }
        ptr::null_mut()
    }
}

/// Whether the event was heard without an error.
unsafe fn tell(event: &AtomicPtr<PyObject>, argument: *mut PyObject) -> bool {
    // SAFETY: the dict and the name are never freed; what is called is held.
    unsafe {
        let names = NAMES.load(Ordering::Acquire);
        let heard = ffi::PyDict_GetItemWithError(names, event.load(Ordering::Acquire));
        if heard.is_null() {
            return ffi::PyErr_Occurred().is_null();
        }
        if heard == ffi::Py_None() {
            return true; // The interpreter ends, and has emptied its modules.
        }
        ffi::Py_INCREF(heard);
        let said = if argument.is_null() {
            ffi::PyObject_CallNoArgs(heard)
        } else {
            ffi::PyObject_CallOneArg(heard, argument)
        };
        ffi::Py_DECREF(heard);
        ffi::Py_XDECREF(said);
        !said.is_null()
    }
}
