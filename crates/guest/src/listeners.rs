//! Python code that is called before or after every call of a C function, by whatever name that is called.

use greenlane_interpreter::endings::guard_at_exit;
use greenlane_methods::call::{Call, Given};
use greenlane_methods::table::{self, Owner, Rule};
use pyo3::exceptions::PyValueError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use std::ptr;

struct Listener {
    call: Py<PyAny>,
    after: bool,
}

impl Rule for Listener {
    fn wants(&self) -> bool {
        true
    }

    unsafe fn seen(&self, call: &Call<'_>) -> *mut PyObject {
        // SAFETY: within the call, attached; the arguments live as long as it.
        unsafe {
            if !self.after {
                self.tell(call);
                return call.pass();
            }
            let result = call.pass();
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
                Given::Nothing => ffi::PyObject_CallNoArgs(listener),
                Given::One(one) => {
                    ffi::PyObject_CallFunctionObjArgs(listener, one, ptr::null_mut::<PyObject>())
                }
                Given::Tuple(all, named) => ffi::PyObject_Call(listener, all, named),
                Given::Vector(all, count, names) => {
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

/// See `_native.pyi`.
#[pyfunction]
pub fn listen_no_more(function: &Bound<'_, PyAny>) -> PyResult<()> {
    table::put_back_one(function).map_err(PyValueError::new_err)
}
