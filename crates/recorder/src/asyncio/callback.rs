//! What stands in a loop's queue for a callback: the callback itself, and since when it could run.
//!
//! To whom looks at it (a loop in debug mode, a handle's `repr`) it is as good as the callback: attributes are the
//! callback's, it is equal to it, `__wrapped__` is the callback.

use super::current_loop::{current_loop, Cause, Source};
use super::steps;
use super::task::Task;
use crate::switch::on;
use crate::thread_state;
use crate::types::{self, new_reference, slot};
use greenlane_process::clock;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::Arc;
use std::{mem, ptr};

#[repr(C)]
struct Callback {
    head: PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    callback: *mut PyObject,
    /// The task that it steps, from `Arc::into_raw`; null = none.
    task: *const Task,
    /// Why it runs, if it steps no task.
    cause: Cause,
}

static TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Makes the type, once.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    TYPE.get_or_try_init(py, || {
        types::make::<Callback>(
            py,
            c"greenlane._native.Callback",
            u64::from(ffi::Py_TPFLAGS_HAVE_GC as u32 | ffi::Py_TPFLAGS_HAVE_VECTORCALL as u32),
            vec![types::offset(
                c"__vectorcalloffset__",
                offset_of!(Callback, vectorcall),
            )],
            vec![
                slot(ffi::Py_tp_dealloc, dealloc as *const ()),
                slot(ffi::Py_tp_traverse, traverse as *const ()),
                slot(ffi::Py_tp_clear, clear as *const ()),
                slot(ffi::Py_tp_getattro, attribute as *const ()),
                slot(ffi::Py_tp_repr, repr as *const ()),
                slot(ffi::Py_tp_richcompare, compare as *const ()),
                slot(ffi::Py_tp_hash, hash as *const ()),
            ],
        )
    })?;
    Ok(())
}

fn type_object() -> *mut ffi::PyTypeObject {
    // SAFETY: callers run in Python, with the GIL; `prepare` came before every hook.
    let py = unsafe { Python::assume_attached() };
    TYPE.get(py)
        .map_or(ptr::null_mut(), |made| made.as_ptr().cast())
}

/// Whether `object` is a [`Callback`] already.
pub unsafe fn is_ours(object: *mut PyObject) -> bool {
    unsafe { ffi::Py_TYPE(object) == type_object() }
}

/// Steps `task` by `callback`. Null with an exception set if there is no memory.
pub unsafe fn step(callback: *mut PyObject, task: Arc<Task>) -> *mut PyObject {
    unsafe { new(callback, Arc::into_raw(task), run_step, NOTHING) }
}

/// Runs `callback`, which has been ready as `cause` says.
pub unsafe fn relay(callback: *mut PyObject, cause: Cause) -> *mut PyObject {
    unsafe { new(callback, ptr::null(), run_relay, cause) }
}

/// Runs `callback` at the time that `cause` says, or later.
pub unsafe fn timer(callback: *mut PyObject, cause: Cause) -> *mut PyObject {
    unsafe { new(callback, ptr::null(), run_timer, cause) }
}

const NOTHING: Cause = Cause {
    source: Source::Task,
    job: 0,
    known_ns: 0,
    ready_ns: 0,
};

unsafe fn new(
    callback: *mut PyObject,
    task: *const Task,
    run: ffi::vectorcallfunc,
    cause: Cause,
) -> *mut PyObject {
    unsafe {
        let made = ffi::PyObject_GC_New::<Callback>(type_object());
        if made.is_null() {
            if !task.is_null() {
                drop(Arc::from_raw(task));
            }
            return ptr::null_mut();
        }
        (&raw mut (*made).vectorcall).write(Some(run));
        (&raw mut (*made).callback).write(new_reference(callback));
        (&raw mut (*made).task).write(task);
        (&raw mut (*made).cause).write(cause);
        ffi::PyObject_GC_Track(made.cast());
        made.cast()
    }
}

/// One step of a task.
unsafe extern "C" fn run_step(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let this = &*this.cast::<Callback>();
        let task = this.task;
        let unit = (*task).unit.get();
        let begins = current_loop();
        if !on() || !begins.running.is_null() {
            // Nothing is recorded, or a loop runs within a step.
            (*unit).left_ns = 0;
            let result = ffi::PyObject_Vectorcall(this.callback, args, nargsf, kwnames);
            (*task).has_stepped.set(true);
            return result;
        }
        let now_ns = clock::monotonic_ns();
        begins.mind(now_ns);
        thread_state::resume(unit, now_ns);
        begins.running = task;
        let before = begins.cause.replace(steps::cause_of(&*unit));
        let result = ffi::PyObject_Vectorcall(this.callback, args, nargsf, kwnames);
        (*task).has_stepped.set(true);
        let ends = current_loop();
        ends.running = ptr::null();
        ends.cause = before;
        let again = mem::take(&mut ends.again);
        if !on() {
            thread_state::forget(unit);
            return result;
        }
        let now_ns = clock::monotonic_ns();
        thread_state::suspend(unit, now_ns);
        if again {
            steps::ready(&mut *unit, Cause::at(Source::Task, (*unit).job, now_ns));
        }
        if ends.is_loop {
            ends.run_own(now_ns);
        }
        result
    }
}

/// A callback that is no step of a task: whom it makes ready could have run since it was itself ready.
unsafe extern "C" fn run_relay(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let this = &*this.cast::<Callback>();
        with_cause(this.cause, this.callback, args, nargsf, kwnames)
    }
}

/// A callback whose time has come.
unsafe extern "C" fn run_timer(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let this = &*this.cast::<Callback>();
        // A loop runs timers up to one tick of its clock early.
        let at_ns = this.cause.ready_ns.min(clock::monotonic_ns());
        let cause = Cause::at(Source::Timer, this.cause.job, at_ns);
        with_cause(cause, this.callback, args, nargsf, kwnames)
    }
}

unsafe fn with_cause(
    cause: Cause,
    callback: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        if !on() {
            return ffi::PyObject_Vectorcall(callback, args, nargsf, kwnames);
        }
        let begins = current_loop();
        if !begins.is_loop {
            begins.mind(clock::monotonic_ns());
        }
        let before = begins.cause.replace(cause);
        let result = ffi::PyObject_Vectorcall(callback, args, nargsf, kwnames);
        current_loop().cause = before;
        result
    }
}

unsafe extern "C" fn dealloc(this: *mut PyObject) {
    unsafe {
        let kind = ffi::Py_TYPE(this);
        ffi::PyObject_GC_UnTrack(this.cast());
        let body = this.cast::<Callback>();
        ffi::Py_XDECREF(mem::replace(&mut (*body).callback, ptr::null_mut()));
        let task = mem::replace(&mut (*body).task, ptr::null());
        if !task.is_null() {
            drop(Arc::from_raw(task));
        }
        ffi::PyObject_GC_Del(this.cast());
        ffi::Py_DECREF(kind.cast());
    }
}

unsafe extern "C" fn traverse(
    this: *mut PyObject,
    visit: ffi::visitproc,
    argument: *mut c_void,
) -> c_int {
    unsafe {
        let callback = (*this.cast::<Callback>()).callback;
        if !callback.is_null() {
            let stop = visit(callback, argument);
            if stop != 0 {
                return stop;
            }
        }
        visit(ffi::Py_TYPE(this).cast(), argument)
    }
}

unsafe extern "C" fn clear(this: *mut PyObject) -> c_int {
    unsafe {
        // It can no longer be called, except by a finalizer; then None keeps `run` right.
        let none = new_reference(ffi::Py_None());
        ffi::Py_XDECREF(mem::replace(&mut (*this.cast::<Callback>()).callback, none));
    }
    0
}

unsafe extern "C" fn attribute(this: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    unsafe { types::attribute(this, name, (*this.cast::<Callback>()).callback) }
}

unsafe extern "C" fn repr(this: *mut PyObject) -> *mut PyObject {
    unsafe { ffi::PyObject_Repr((*this.cast::<Callback>()).callback) }
}

unsafe extern "C" fn compare(
    this: *mut PyObject,
    other: *mut PyObject,
    how: c_int,
) -> *mut PyObject {
    unsafe {
        let other = if is_ours(other) {
            (*other.cast::<Callback>()).callback
        } else {
            other
        };
        ffi::PyObject_RichCompare((*this.cast::<Callback>()).callback, other, how)
    }
}

unsafe extern "C" fn hash(this: *mut PyObject) -> ffi::Py_hash_t {
    unsafe { ffi::PyObject_Hash((*this.cast::<Callback>()).callback) }
}
