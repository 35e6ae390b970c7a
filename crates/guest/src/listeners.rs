//! Python code that is called before, after or instead of every call of a C function, by whatever name that is called.

use greenlane_interpreter::endings::guard_at_exit;
use greenlane_methods::call::{Arguments, Call};
use greenlane_methods::table::{self, Owner, Rule};
use greenlane_permits::gang;
use greenlane_recorder::method_hook;
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ptr;

struct Listener {
    call: Py<PyAny>,
    after: bool,
}

impl Rule for Listener {
    fn wants(&self) -> bool {
        true
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call, attached; the arguments live as long as it.
        unsafe {
            if !self.after {
                self.tell(call);
                return gang::freely(|| call.pass());
            }
            let result = gang::freely(|| call.pass());
            if !result.is_null() {
                self.tell(call);
            }
            result
        }
    }
}

impl Listener {
    /// Calls it with the arguments. The program must not hear of what goes wrong in it.
    ///
    /// # Safety
    /// Within the call, attached, with no exception set.
    unsafe fn tell(&self, call: &Call<'_>) {
        let listener = self.call.as_ptr();
        // SAFETY: as the caller says.
        unsafe {
            let said = match call.given {
                Arguments::Nothing => ffi::PyObject_CallNoArgs(listener),
                Arguments::One(one) => {
                    ffi::PyObject_CallFunctionObjArgs(listener, one, ptr::null_mut::<PyObject>())
                }
                Arguments::Tuple(all, named) => ffi::PyObject_Call(listener, all, named),
                Arguments::Vector(all, count, names) => {
                    ffi::PyObject_Vectorcall(listener, all, count as usize, names)
                }
            };
            match said.is_null() {
                true => ffi::PyErr_Clear(),
                false => ffi::Py_DECREF(said),
            }
        }
    }
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (function, listener, *, after=false))]
pub fn listen_to(
    function: &Bound<'_, PyAny>,
    listener: Bound<'_, PyAny>,
    after: bool,
) -> PyResult<()> {
    guard_at_exit(function.py())?;
    let call = listener.unbind();
    table::see(
        function,
        Owner::Listeners,
        Box::new(Listener { call, after }),
    )
    .map_err(PyValueError::new_err)
}

/// A callable in the place of the function.
struct ReplacedMethod(Py<PyAny>);

impl Rule for ReplacedMethod {
    fn wants(&self) -> bool {
        true
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call, attached.
        unsafe { call.hand_to(self.0.as_ptr()) }
    }
}

/// What has a rule of its own is not called, but asked for it.
struct RedirectedMethod(#[allow(dead_code)] Py<PyAny>, &'static dyn Rule);

impl Rule for RedirectedMethod {
    fn wants(&self) -> bool {
        self.1.wants()
    }

    unsafe fn see(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: as the caller says.
        unsafe { self.1.see(call) }
    }
}

/// See `_native.pyi`.
#[pyfunction]
pub fn lead_to(function: &Bound<'_, PyAny>, callable: Bound<'_, PyAny>) -> PyResult<()> {
    guard_at_exit(function.py())?;
    let rule: Box<dyn Rule> =
        match method_hook::of(&callable).map(|lead| ptr::from_ref(&*lead.rule)) {
            // SAFETY: the object is held as long as its rule is.
            Some(rule) => Box::new(RedirectedMethod(callable.unbind(), unsafe { &*rule })),
            None => Box::new(ReplacedMethod(callable.unbind())),
        };
    table::see(function, Owner::Listeners, rule).map_err(PyValueError::new_err)
}

/// See `_native.pyi`.
#[pyfunction]
pub fn unseen_method<'py>(
    class: &Bound<'py, PyType>,
    function: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    table::unseen_method(class, function)?.map_err(PyValueError::new_err)
}

/// See `_native.pyi`.
#[pyfunction]
pub fn stop_listening(function: &Bound<'_, PyAny>) -> PyResult<()> {
    table::restore_one(function).map_err(PyValueError::new_err)
}
