//! The interpreter that we run in: what permits and the recorder both ask of it.

pub mod endings;
pub mod gil;

use pyo3::prelude::*;

/// An address in the interpreter's object: the executable, or libpython.
pub fn address() -> usize {
    pyo3::ffi::Py_IsInitialized as *const () as usize
}

/// The newest CPython whose private structures are known.
pub const NEWEST: (u8, u8) = (3, 15);

/// Whether what follows private structures may be used in this interpreter.
pub fn is_known(py: Python<'_>) -> PyResult<bool> {
    // The version that Python reports: messages are about the one that a program sees.
    let version = py.import("sys")?.getattr("version_info")?;
    let (major, minor): (u8, u8) = (
        version.get_item(0)?.extract()?,
        version.get_item(1)?.extract()?,
    );
    Ok((major, minor) <= NEWEST)
}

/// Whether this interpreter runs with a GIL now.
pub fn gil_enabled(py: Python<'_>) -> PyResult<bool> {
    match py.import("sys")?.getattr("_is_gil_enabled") {
        Ok(ask) => ask.call0()?.extract(),
        Err(_) => Ok(true),
    }
}
