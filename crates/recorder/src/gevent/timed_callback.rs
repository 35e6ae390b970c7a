//! [`TimedCallback`] goes round a callback that the loop is given, and remembers when: gevent's loop shows nobody which
//! callback it runs.

use super::switches::{self, current_hub, Cause};
use crate::types::{self, attribute, slot};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// See the module.
#[repr(C)]
pub struct TimedCallback {
    head: ffi::PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    callback: *mut ffi::PyObject,
    cause: Cause,
}

static TYPE_OF_CALLBACKS: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// TimedCallback callbacks to use again: one is needed for each that a loop is given.
struct Free(UnsafeCell<Vec<*mut TimedCallback>>);
// SAFETY: looked at with the GIL only; nothing calls Python meanwhile.
unsafe impl Sync for Free {}
static FREE: Free = Free(UnsafeCell::new(Vec::new()));
const MOST_FREE: usize = 256;

/// Makes the type, once.
pub fn load(py: Python<'_>) -> PyResult<()> {
    if TYPE_OF_CALLBACKS.load(Ordering::Relaxed).is_null() {
        let made = types::make::<TimedCallback>(
            py,
            c"greenlane._native.TimedCallback",
            u64::from(ffi::Py_TPFLAGS_HAVE_GC as u32 | ffi::Py_TPFLAGS_HAVE_VECTORCALL as u32),
            vec![types::offset(
                c"__vectorcalloffset__",
                offset_of!(TimedCallback, vectorcall),
            )],
            vec![
                slot(ffi::Py_tp_dealloc, free_stamped as *const ()),
                slot(ffi::Py_tp_traverse, traverse as *const ()),
                slot(ffi::Py_tp_clear, clear as *const ()),
                slot(ffi::Py_tp_getattro, stamped_attribute as *const ()),
                slot(ffi::Py_tp_repr, stamped_repr as *const ()),
            ],
        )?;
        TYPE_OF_CALLBACKS.store(made.into_ptr().cast(), Ordering::Relaxed);
    }
    Ok(())
}

/// `callback` with the moment that it was given to the loop: a new reference, or null with an error set.
pub fn stamp(callback: *mut ffi::PyObject, cause: Cause) -> *mut ffi::PyObject {
    // SAFETY: the type's instances have this layout; the collector sees the object only when it is whole.
    unsafe {
        let free = &mut *FREE.0.get();
        let stamped = match free.pop() {
            Some(stamped) => {
                ffi::PyObject_Init(stamped.cast(), TYPE_OF_CALLBACKS.load(Ordering::Relaxed)).cast()
            }
            None => {
                ffi::PyObject_GC_New::<TimedCallback>(TYPE_OF_CALLBACKS.load(Ordering::Relaxed))
            }
        };
        if !stamped.is_null() {
            (*stamped).vectorcall = Some(call_stamped);
            (*stamped).callback = ffi::Py_NewRef(callback);
            (*stamped).cause = cause;
            ffi::PyObject_GC_Track(stamped.cast());
        }
        stamped.cast()
    }
}

unsafe extern "C" fn call_stamped(
    callable: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: as above. Each call restores the cause that it replaced, so it never outlives the callback.
    unsafe {
        let stamped = &*callable.cast::<TimedCallback>();
        switches::watch_from(true);
        let before = std::mem::replace(&mut current_hub().cause, stamped.cause);
        let result = ffi::PyObject_Vectorcall(stamped.callback, arguments, count, names);
        current_hub().cause = before;
        result
    }
}

unsafe extern "C" fn free_stamped(object: *mut ffi::PyObject) {
    // SAFETY: as above, and the collector forgets it first.
    unsafe {
        let kind = ffi::Py_TYPE(object);
        ffi::PyObject_GC_UnTrack(object.cast());
        let stamped = object.cast::<TimedCallback>();
        ffi::Py_XDECREF((*stamped).callback);
        let free = &mut *FREE.0.get();
        if free.len() < MOST_FREE {
            free.push(stamped);
        } else {
            ffi::PyObject_GC_Del(object.cast());
        }
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn traverse(
    object: *mut ffi::PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the collector's protocol.
    unsafe {
        let callback = (*object.cast::<TimedCallback>()).callback;
        if !callback.is_null() {
            let stop = visit(callback, argument);
            if stop != 0 {
                return stop;
            }
        }
        visit(ffi::Py_TYPE(object).cast(), argument)
    }
}

unsafe extern "C" fn clear(object: *mut ffi::PyObject) -> c_int {
    // SAFETY: the collector's protocol. What it calls afterwards is None, which says so.
    unsafe {
        let stamped = object.cast::<TimedCallback>();
        let callback = std::mem::replace(&mut (*stamped).callback, ffi::Py_NewRef(ffi::Py_None()));
        ffi::Py_XDECREF(callback);
    }
    0
}

unsafe extern "C" fn stamped_attribute(
    object: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: an instance.
    unsafe { attribute(object, name, (*object.cast::<TimedCallback>()).callback) }
}

unsafe extern "C" fn stamped_repr(object: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: an instance.
    unsafe { ffi::PyObject_Repr((*object.cast::<TimedCallback>()).callback) }
}
