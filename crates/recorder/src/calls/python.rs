//! The redirected calls' face to Python; `_native.pyi` is the manual.

use super::{installation, sockets};
use crate::sampler;
use greenlane_interpreter::endings::guard_at_exit;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::Ordering;

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (*, stamps=true))]
pub fn calls_install(py: Python<'_>, stamps: bool) -> PyResult<String> {
    guard_at_exit(py)?;
    Ok(installation::install(py, stamps).err().unwrap_or_default())
}

/// See `_native.pyi`.
#[pyfunction]
pub fn calls_rescan() {
    // With the GIL, for a moment: a daemon thread that gave it up here at the interpreter's end would not get it again,
    // and be ended inside of Rust, which aborts.
    installation::rescan();
}

/// See `_native.pyi`.
#[pyfunction]
pub fn calls_uninstall(py: Python<'_>) {
    py.detach(installation::uninstall);
}

/// See `_native.pyi`.
#[pyfunction]
pub fn calls_state(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let found = installation::redirection_totals();
    let state = PyDict::new(py);
    state.set_item("installed", installation::is_installed())?;
    state.set_item("why", installation::why(py))?;
    state.set_item("objects", found.objects)?;
    state.set_item("slots", found.slots)?;
    state.set_item("foreign", found.foreign)?;
    state.set_item("unfinished", found.unfinished)?;
    state.set_item("failed", found.failed)?;
    for (name, count) in [
        ("sockets", &sockets::SOCKETS),
        ("stamps", &sockets::STAMPS),
        ("given_up", &sockets::GIVEN_UP),
        ("samples", &sampler::SAMPLES),
        ("samples_late", &sampler::LATE),
    ] {
        state.set_item(name, count.load(Ordering::Relaxed))?;
    }
    Ok(state)
}
