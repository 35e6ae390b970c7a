//! What is known of one task.

use crate::thread_state::{forget, Unit};
use pyo3::ffi::{self, PyObject};
use std::cell::{Cell, UnsafeCell};
use std::ptr;

/// One task of a loop.
pub struct Task {
    /// A weak reference to it: an address says nothing once the task is gone.
    pub weak: *mut PyObject,
    /// When it was made; 0 = unseen.
    pub born_ns: u64,
    /// When the bytes came for which it was made, and whether the kernel says so; 0 = it was made for something else.
    pub arrival_ns: u64,
    pub arrival_exact: bool,
    /// Its first step has ended: what it works on now are other bytes than those for which it was made.
    pub has_stepped: Cell<bool>,
    /// Changed by its loop's thread only.
    pub unit: UnsafeCell<Unit>,
}

// SAFETY: changed and dropped with the GIL, by the thread of its loop.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

impl Task {
    /// Whether the task still exists.
    pub fn is_alive(&self) -> bool {
        // SAFETY: a weak reference that we own; the GIL is held.
        unsafe { !target(self.weak).is_null() }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        forget(self.unit.get());
        // SAFETY: ours since `see`; the GIL is held.
        unsafe { ffi::Py_DECREF(self.weak) };
    }
}

/// What `weak` refers to, borrowed; null = gone.
pub unsafe fn target(weak: *mut PyObject) -> *mut PyObject {
    let mut found = ptr::null_mut();
    unsafe {
        if ffi::compat::PyWeakref_GetRef(weak, &mut found) > 0 {
            ffi::Py_DECREF(found);
            return found;
        }
    }
    ptr::null_mut()
}
