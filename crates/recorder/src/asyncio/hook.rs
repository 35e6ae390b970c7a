//! Stands in the place of a loop's method that takes a callback, and puts ours around it.
//!
//! A method descriptor to CPython: `loop.call_soon(...)` reaches it without a bound method in between.

use super::callback;
use super::here::{here, Cause, Source};
use super::steps;
use super::types::{self, kept, slot};
use crate::switch::on;
use greenlane_process::clock;
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyList;
use std::mem::{self, offset_of};
use std::ptr;

#[repr(C)]
struct Hook {
    head: PyObject,
    vectorcall: Option<ffi::vectorcallfunc>,
    original: *mut PyObject,
    /// Not empty = pass straight through.
    silent: *mut PyObject,
    attributes: *mut PyObject,
}

static TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// What stands in the place of the method `name`, which is `original`.
pub fn make<'py>(
    py: Python<'py>,
    name: &str,
    original: Bound<'py, PyAny>,
    silent: Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyAny>> {
    let run: ffi::vectorcallfunc = match name {
        "call_soon" => call_soon,
        "call_soon_threadsafe" => call_soon_threadsafe,
        "call_at" => call_at,
        "call_later" => call_later,
        "add" => registered,
        "create_task" => created,
        _ => {
            return Err(PyValueError::new_err(format!(
            "name={name:?}, expected call_soon, call_soon_threadsafe, call_at, call_later, add or create_task"
        )))
        }
    };
    callback::prepare(py)?;
    let kind = TYPE.get_or_try_init(py, || make_type(py))?;
    // SAFETY: the type is of objects shaped `Hook`, and each field is written before anybody sees the object.
    unsafe {
        let made = ffi::PyType_GenericAlloc(kind.as_ptr().cast(), 0);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        let hook = made.as_ptr().cast::<Hook>();
        (*hook).vectorcall = Some(run);
        (*hook).original = original.into_ptr();
        (*hook).silent = silent.into_ptr();
        (*hook).attributes = ptr::null_mut();
        Ok(made)
    }
}

fn make_type(py: Python<'_>) -> PyResult<Py<PyAny>> {
    types::make::<Hook>(
        py,
        c"greenlane._native.Hook",
        u64::from(
            ffi::Py_TPFLAGS_HAVE_VECTORCALL as u32 | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR as u32,
        ),
        vec![
            types::offset(c"__vectorcalloffset__", offset_of!(Hook, vectorcall)),
            types::offset(c"__dictoffset__", offset_of!(Hook, attributes)),
        ],
        vec![ffi::PyGetSetDef {
            name: c"__dict__".as_ptr(),
            get: Some(ffi::PyObject_GenericGetDict),
            set: Some(ffi::PyObject_GenericSetDict),
            ..ffi::PyGetSetDef::default()
        }],
        vec![
            slot(ffi::Py_tp_dealloc, dealloc as *const ()),
            slot(ffi::Py_tp_descr_get, bind as *const ()),
        ],
    )
}

impl Hook {
    unsafe fn is_silent(&self) -> bool {
        unsafe { !on() || ffi::PyList_Size(self.silent) != 0 }
    }

    unsafe fn pass(
        &self,
        args: *const *mut PyObject,
        nargsf: usize,
        kwnames: *mut PyObject,
    ) -> *mut PyObject {
        unsafe { ffi::PyObject_Vectorcall(self.original, args, nargsf, kwnames) }
    }

    /// Calls the original with `ours`, which is given up, in the place of argument `at`.
    unsafe fn pass_with(
        &self,
        ours: *mut PyObject,
        at: usize,
        args: *const *mut PyObject,
        nargsf: usize,
        kwnames: *mut PyObject,
    ) -> *mut PyObject {
        const MOST: usize = 12;
        unsafe {
            if ours.is_null() {
                return ptr::null_mut();
            }
            let positional = ffi::PyVectorcall_NARGS(nargsf) as usize;
            let named = if kwnames.is_null() {
                0
            } else {
                ffi::PyTuple_Size(kwnames) as usize
            };
            let total = positional + named;
            let flag = ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
            let result = if total < MOST {
                let mut copy: [*mut PyObject; MOST] = [ptr::null_mut(); MOST];
                ptr::copy_nonoverlapping(args, copy.as_mut_ptr().add(1), total);
                copy[at + 1] = ours;
                self.pass(copy.as_ptr().add(1), positional | flag, kwnames)
            } else {
                let mut copy: Vec<*mut PyObject> = vec![ptr::null_mut(); total + 1];
                ptr::copy_nonoverlapping(args, copy.as_mut_ptr().add(1), total);
                copy[at + 1] = ours;
                self.pass(copy.as_ptr().add(1), positional | flag, kwnames)
            };
            ffi::Py_DECREF(ours);
            result
        }
    }
}

/// `loop.call_soon(callback, *args, context=None)`
unsafe extern "C" fn call_soon(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let this = &*this.cast::<Hook>();
        let count = ffi::PyVectorcall_NARGS(nargsf) as usize;
        if this.is_silent() || count < 2 {
            return this.pass(args, nargsf, kwnames);
        }
        let wanted = *args.add(1);
        let here = here();
        let Some((stepped, kind)) = steps::of(wanted) else {
            if !can_wrap(wanted) {
                return this.pass(args, nargsf, kwnames);
            }
            let ours = callback::relay(wanted, here.why());
            return this.pass_with(ours, 1, args, nargsf, kwnames);
        };
        let context = if kwnames.is_null() {
            ptr::null_mut()
        } else {
            *args.add(count)
        };
        let Some(met) = steps::see(here, stepped, kind, context) else {
            return this.pass(args, nargsf, kwnames);
        };
        if ptr::eq(here.running, &*met) {
            here.again = true;
        } else {
            let unit = &mut *met.unit.get();
            if unit.ready_ns == 0 {
                steps::ready(unit, here.why());
            }
        }
        let ours = callback::step(wanted, met);
        this.pass_with(ours, 1, args, nargsf, kwnames)
    }
}

/// `loop.call_soon_threadsafe(callback, *args, context=None)`
unsafe extern "C" fn call_soon_threadsafe(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let this = &*this.cast::<Hook>();
        if this.is_silent() || ffi::PyVectorcall_NARGS(nargsf) < 2 {
            return this.pass(args, nargsf, kwnames);
        }
        let wanted = *args.add(1);
        if !can_wrap(wanted) || steps::of(wanted).is_some() {
            return this.pass(args, nargsf, kwnames);
        }
        let job = crate::strand::running().1;
        let cause = Cause::at(Source::Thread, job, clock::monotonic_ns());
        this.pass_with(callback::relay(wanted, cause), 1, args, nargsf, kwnames)
    }
}

/// asyncio's `loop.call_at(when, callback, *args, context=None)`; `when` is of the monotonic clock, s.
unsafe extern "C" fn call_at(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe { timed(this, args, nargsf, kwnames, |when_s| (when_s * 1e9) as u64) }
}

/// uvloop's `loop.call_later(delay, callback, *args, context=None)`; libuv counts in whole ms.
unsafe extern "C" fn call_later(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        timed(this, args, nargsf, kwnames, |delay_s| {
            const MS: u64 = 1_000_000;
            let now_ns = clock::monotonic_ns();
            match (delay_s * 1e3).max(0.0).round_ties_even() as u64 {
                0 => now_ns,
                delay_ms => (now_ns / MS).saturating_add(delay_ms).saturating_mul(MS),
            }
        })
    }
}

unsafe fn timed(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
    due_ns: impl FnOnce(f64) -> u64,
) -> *mut PyObject {
    unsafe {
        let this = &*this.cast::<Hook>();
        if this.is_silent() || ffi::PyVectorcall_NARGS(nargsf) < 3 {
            return this.pass(args, nargsf, kwnames);
        }
        let wanted = *args.add(2);
        let seconds = ffi::PyFloat_AsDouble(*args.add(1));
        if seconds == -1.0 && !ffi::PyErr_Occurred().is_null() {
            // The original says it in its own words.
            ffi::PyErr_Clear();
            return this.pass(args, nargsf, kwnames);
        }
        if !can_wrap(wanted) {
            return this.pass(args, nargsf, kwnames);
        }
        let job = crate::strand::running().1;
        let cause = Cause::at(Source::Timer, job, due_ns(seconds).max(1));
        this.pass_with(callback::timer(wanted, cause), 2, args, nargsf, kwnames)
    }
}

/// `asyncio.tasks._scheduled_tasks.add(task)`: 3.12 and 3.13 call it for each task that is made, after the first step of
/// an eager one if that did not end it.
unsafe extern "C" fn registered(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let this = &*this.cast::<Hook>();
        let result = this.pass(args, nargsf, kwnames);
        if !result.is_null() && !this.is_silent() && ffi::PyVectorcall_NARGS(nargsf) == 1 {
            steps::registered(*args);
        }
        result
    }
}

/// `loop.create_task(coro, ...)`: from 3.14 on C tells nobody else that it has made a task.
unsafe extern "C" fn created(
    this: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let this = &*this.cast::<Hook>();
        let result = this.pass(args, nargsf, kwnames);
        if !result.is_null() && !this.is_silent() {
            steps::created(result);
        }
        result
    }
}

/// Whether the loop may get ours in the place of `callback`: not if it would refuse what it got, or it is ours already.
unsafe fn can_wrap(callback: *mut PyObject) -> bool {
    unsafe { !callback::is_ours(callback) && ffi::PyCallable_Check(callback) != 0 }
}

unsafe extern "C" fn bind(
    this: *mut PyObject,
    instance: *mut PyObject,
    _owner: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        if instance.is_null() {
            return kept(this);
        }
        types::PyMethod_New(this, instance)
    }
}

unsafe extern "C" fn dealloc(this: *mut PyObject) {
    unsafe {
        let kind = ffi::Py_TYPE(this);
        let hook = this.cast::<Hook>();
        for held in [
            &mut (*hook).original,
            &mut (*hook).silent,
            &mut (*hook).attributes,
        ] {
            ffi::Py_XDECREF(mem::replace(held, ptr::null_mut()));
        }
        ffi::PyObject_Free(this.cast());
        ffi::Py_DECREF(kind.cast());
    }
}
