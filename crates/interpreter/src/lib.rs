//! The interpreter that we run in: what permits and the recorder both ask of it.

pub mod endings;

use pyo3::prelude::*;

/// An address in the interpreter's object: the executable, or libpython.
pub fn address() -> usize {
    pyo3::ffi::Py_IsInitialized as *const () as usize
}

/// Whether this interpreter runs with a GIL now.
pub fn gil_enabled(py: Python<'_>) -> PyResult<bool> {
    match py.import("sys")?.getattr("_is_gil_enabled") {
        Ok(ask) => ask.call0()?.extract(),
        Err(_) => Ok(true),
    }
}
