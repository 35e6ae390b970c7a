//! Rules of calls that wait for anything but a lock or a socket.

use super::{callers, phase};
use crate::nonblocking_calls::is_ready;
use greenlane_methods::call::{Call, Function};
use greenlane_methods::table::Rule;
use pyo3::ffi::{self, PyObject};
use std::ffi::CString;

/// When a call can block.
enum When {
    Always,
    /// Unless this argument is 0.
    NotZero,
    /// If this argument is above 0.
    Positive,
    /// Unless this argument has one of the bits of `mask`.
    Without,
    /// If what is asked says so: a queue that it is empty (True), a thread that it is done (False). And not at a time-out
    /// of 0, which stands at `at`, nor after a `block` or `blocking` of False, one before it.
    Says(bool),
    /// As the last; what is asked is whether it can be had now, which takes it.
    Tried,
    /// If a known function of the standard library calls, and the descriptor, the first argument, is not ready to be
    /// read: others read files.
    ByReader,
    /// If a known function calls.
    ByWriter,
}

struct Wait {
    kind: u8,
    when: When,
    at: usize,
    name: Option<CString>,
    mask: i64,
    asks: Vec<Function>,
}

/// The rule called `rule`.
pub fn rule_named(
    rule: &str,
    kind: u8,
    at: usize,
    name: Option<String>,
    mask: i64,
    asks: &[Function],
) -> Option<Box<dyn Rule>> {
    let when = match rule {
        "always" => When::Always,
        "not_zero" => When::NotZero,
        "positive" => When::Positive,
        "without" => When::Without,
        "while" if asks.len() == 1 => When::Says(true),
        "until" if asks.len() == 1 => When::Says(false),
        "tried" if asks.len() == 1 => When::Tried,
        "by_reader" => When::ByReader,
        "by_writer" => When::ByWriter,
        _ => return None,
    };
    let name = name.and_then(|name| CString::new(name).ok());
    let asks = asks.to_vec();
    Some(Box::new(Wait {
        kind,
        when,
        at,
        name,
        mask,
        asks,
    }))
}

impl Rule for Wait {
    fn wants(&self) -> bool {
        phase::is_heard()
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call.
        unsafe {
            let argument = call.argument(self.at, self.name.as_deref());
            let kind = match self.when {
                When::Always => callers::kind_or(self.kind),
                When::NotZero if argument.is_some_and(|given| is_zero(given)) => {
                    return call.pass()
                }
                When::Positive if argument.is_none_or(|given| !is_positive(given)) => {
                    return call.pass()
                }
                When::Without if argument.is_none_or(|given| has_bits(given, self.mask)) => {
                    return call.pass()
                }
                When::Says(_) | When::Tried if never_waits(call, self.at) => return call.pass(),
                When::Says(waits) if is_true(self.asks[0].call(call.this, &[])) != Some(waits) => {
                    return call.pass()
                }
                When::Tried => {
                    let tried = self.asks[0].call(call.this, &[ffi::Py_False()]);
                    if tried.is_null() || tried == ffi::Py_True() {
                        return tried;
                    }
                    ffi::Py_DECREF(tried);
                    callers::kind_or(self.kind)
                }
                When::ByReader | When::ByWriter => match callers::direct() {
                    Some(_) if matches!(self.when, When::ByReader) && is_readable(argument) => {
                        return call.pass()
                    }
                    Some(_) => callers::kind_or(self.kind),
                    None => return call.pass(),
                },
                _ => callers::kind_or(self.kind),
            };
            phase::around(
                kind,
                || call.pass(),
                |result| {
                    // A queue's `get` that raises: it is empty still.
                    if result.is_null() && matches!(self.when, When::Says(true)) {
                        greenlane_recorder::timed_out();
                    }
                },
            )
        }
    }
}

/// Whether the arguments, `timeout` at this place and `block` or `blocking` before it, say not to wait.
pub unsafe fn never_waits(call: &Call<'_>, at: usize) -> bool {
    // SAFETY: the arguments of the call.
    unsafe {
        let timeout = call.argument(at, Some(c"timeout"));
        let before = at.checked_sub(1).and_then(|before| {
            call.argument(before, Some(c"block"))
                .or_else(|| call.argument(before, Some(c"blocking")))
        });
        timeout.is_some_and(|given| is_zero(given))
            || before.is_some_and(|given| ffi::PyObject_IsTrue(given) == 0)
    }
}

/// A 0 of any kind of number that CPython has.
pub unsafe fn is_zero(object: *mut PyObject) -> bool {
    number(object) == Some(0.0)
}

unsafe fn is_positive(object: *mut PyObject) -> bool {
    number(object).is_some_and(|number| number > 0.0)
}

/// Of an int or a float; nothing of the program's is called for it.
pub fn number(object: *mut PyObject) -> Option<f64> {
    // SAFETY: an argument of the call.
    unsafe {
        if ffi::PyFloat_Check(object) != 0 {
            return Some(ffi::PyFloat_AsDouble(object));
        }
        if ffi::PyLong_Check(object) == 0 {
            return None;
        }
        let value = ffi::PyLong_AsDouble(object);
        if value == -1.0 && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        Some(value)
    }
}

/// Whether it has one of `bits`, or is no int at all: then the function says in its own words what is wrong.
pub unsafe fn has_bits(object: *mut PyObject, bits: i64) -> bool {
    // SAFETY: an argument of the call.
    unsafe {
        if ffi::PyLong_Check(object) == 0 {
            return true;
        }
        let value = ffi::PyLong_AsLong(object);
        if value == -1 && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
            return true;
        }
        value & bits != 0
    }
}

/// Takes a reference to a bool or an int; None, with the error cleared, when it is none.
pub unsafe fn is_true(given: *mut PyObject) -> Option<bool> {
    // SAFETY: a new reference, or null with an error set.
    unsafe {
        if given.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        let truth = ffi::PyObject_IsTrue(given);
        ffi::Py_DECREF(given);
        (truth >= 0).then_some(truth == 1)
    }
}

fn is_readable(descriptor: Option<*mut PyObject>) -> bool {
    let Some(number) = descriptor.and_then(number) else {
        return false;
    };
    is_ready(number as i32, libc::POLLIN, 0).unwrap_or(false)
}
