//! How fast the cores compute now, as a recording tells it.

use pyo3::prelude::*;

/// What a loop of fixed work takes on this thread, ns.
#[pyfunction]
pub fn core_loop_ns(py: Python<'_>) -> u32 {
    py.detach(greenlane_process::speed::loop_ns)
}
