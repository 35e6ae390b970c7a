//! Sees the calls of a loop's method that takes a callback, and puts ours around that.

use super::callback;
use super::current_loop::{current_loop, Cause, Source};
use super::steps;
use crate::method_hook;
use crate::switch::on;
use greenlane_methods::call::{Call, Shape};
use greenlane_methods::table::Rule;
use greenlane_process::clock;
use greenlane_recording_format::event::Event;
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::ptr;

struct Hook {
    run: unsafe fn(&Call<'_>) -> *mut PyObject,
    /// Not empty = pass straight through.
    silent: Py<PyList>,
}

impl Rule for Hook {
    fn wants(&self) -> bool {
        true
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: as the caller says; the list is held by us.
        unsafe {
            let result = match on() && ffi::PyList_Size(self.silent.as_ptr()) == 0 {
                true => (self.run)(call),
                false => call.pass(),
            };
            if !result.is_null() && call.function.shape == Shape::Object {
                let py = Python::assume_attached();
                let made = Bound::ref_from_ptr(py, &result);
                let original = call.function.address as *mut PyObject;
                // What is no handle has no such list: nothing to do.
                let _ = leave_no_frame(made, Bound::ref_from_ptr(py, &original));
            }
            result
        }
    }
}

/// What is called in the place of the method `name`, which is `original`.
pub fn make<'py>(
    name: &str,
    original: &Bound<'py, PyAny>,
    silent: Bound<'py, PyList>,
) -> PyResult<Bound<'py, PyAny>> {
    let run = match name {
        "call_soon" => call_soon,
        "call_soon_threadsafe" => call_soon_threadsafe,
        "call_at" => call_at,
        "call_later" => call_later,
        "create_task" => create_task,
        _ => {
            return Err(PyValueError::new_err(format!(
            "name={name:?}, expected call_soon, call_soon_threadsafe, call_at, call_later or create_task"
        )))
        }
    };
    callback::prepare(original.py())?;
    let silent = silent.unbind();
    method_hook::make(original, Box::new(Hook { run, silent }))
}

/// Calls the method with `ours`, which is given up, in the place of the argument at `place`.
unsafe fn pass_with(call: &Call<'_>, place: usize, ours: *mut PyObject) -> *mut PyObject {
    unsafe {
        if ours.is_null() {
            return ptr::null_mut();
        }
        let result = call.pass_with(place, ours);
        ffi::Py_DECREF(ours);
        result
    }
}

/// In debug mode asyncio notes the frames in which a handle was made: those of the program, not the one that leads to us.
///
/// That one has the name and the place of `def` of the function that it leads to (`greenlane.probes.bodies`).
fn leave_no_frame(made: &Bound<'_, PyAny>, original: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = made.py();
    let frames = made.getattr(intern!(py, "_source_traceback"))?;
    let Ok(frames) = frames.cast::<PyList>() else {
        return Ok(());
    };
    let code = original.getattr(intern!(py, "__code__"))?;
    let name = code.getattr("co_name")?;
    let first: u32 = code.getattr("co_firstlineno")?.extract()?;
    for at in (0..frames.len()).rev() {
        let frame = frames.get_item(at)?;
        let line: u32 = frame.getattr("lineno")?.extract()?;
        if (first..first + 3).contains(&line) && frame.getattr("name")?.eq(&name)? {
            return frames.del_item(at);
        }
    }
    Ok(())
}

/// `loop.call_soon(callback, *args, context=None)`
unsafe fn call_soon(call: &Call<'_>) -> *mut PyObject {
    unsafe {
        let Some(wanted) = call.argument(0, None) else {
            return call.pass();
        };
        let current = current_loop();
        let Some((stepped, kind)) = steps::of(wanted) else {
            if !can_wrap(wanted) {
                return call.pass();
            }
            return pass_with(call, 0, callback::relay(wanted, current.why()));
        };
        let context = || {
            let given = call.argument(usize::MAX, Some(c"context"));
            given.unwrap_or(ptr::null_mut())
        };
        let Some(met) = steps::see(current, stepped, kind, context) else {
            return call.pass();
        };
        if ptr::eq(current.running, &*met) {
            current.again = true;
        } else {
            let unit = &mut *met.unit.get();
            if unit.ready_ns == 0 {
                steps::ready(unit, current.why());
            }
        }
        pass_with(call, 0, callback::step(wanted, met))
    }
}

/// `loop.call_soon_threadsafe(callback, *args, context=None)`
unsafe fn call_soon_threadsafe(call: &Call<'_>) -> *mut PyObject {
    unsafe {
        match call.argument(0, None) {
            Some(wanted) if can_wrap(wanted) && steps::of(wanted).is_none() => {
                let job = crate::thread_state::running().1;
                let at_ns = clock::monotonic_ns();
                if on() && !crate::thread_state::is_loop() {
                    let unit = crate::thread_state::with_unit(|unit| unit.id).unwrap_or(0);
                    crate::thread_state::emit(Event::Answer { at_ns, unit });
                }
                let cause = Cause::at(Source::Thread, job, at_ns);
                pass_with(call, 0, callback::relay(wanted, cause))
            }
            _ => call.pass(),
        }
    }
}

/// asyncio's `loop.call_at(when, callback, *args, context=None)`; `when` is of the monotonic clock, s.
unsafe fn call_at(call: &Call<'_>) -> *mut PyObject {
    unsafe { schedule_timer(call, |when_s| (when_s * 1e9) as u64) }
}

/// uvloop's `loop.call_later(delay, callback, *args, context=None)`; libuv counts in whole ms.
unsafe fn call_later(call: &Call<'_>) -> *mut PyObject {
    unsafe {
        schedule_timer(call, |delay_s| {
            const MS: u64 = 1_000_000;
            let now_ns = clock::monotonic_ns();
            match (delay_s * 1e3).max(0.0).round_ties_even() as u64 {
                0 => now_ns,
                delay_ms => (now_ns / MS).saturating_add(delay_ms).saturating_mul(MS),
            }
        })
    }
}

unsafe fn schedule_timer(call: &Call<'_>, due_ns: impl FnOnce(f64) -> u64) -> *mut PyObject {
    unsafe {
        let (Some(when), Some(wanted)) = (call.argument(0, None), call.argument(1, None)) else {
            return call.pass();
        };
        let seconds = ffi::PyFloat_AsDouble(when);
        if seconds == -1.0 && !ffi::PyErr_Occurred().is_null() {
            // The original says it in its own words.
            ffi::PyErr_Clear();
            return call.pass();
        }
        if !can_wrap(wanted) {
            return call.pass();
        }
        let job = crate::thread_state::running().1;
        let cause = Cause::at(Source::Timer, job, due_ns(seconds).max(1));
        pass_with(call, 1, callback::timer(wanted, cause))
    }
}

/// `loop.create_task(coro, ...)`: nobody else is told that an eager task has been made.
unsafe fn create_task(call: &Call<'_>) -> *mut PyObject {
    unsafe {
        let result = call.pass();
        if !result.is_null() {
            steps::note_task(result);
        }
        result
    }
}

/// Whether the loop may get ours in the place of `callback`: not if it would refuse what it got, or it is ours already.
unsafe fn can_wrap(callback: *mut PyObject) -> bool {
    unsafe { !callback::is_ours(callback) && ffi::PyCallable_Check(callback) != 0 }
}
