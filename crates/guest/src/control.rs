//! The control socket, for Python; `_native.pyi` is the manual.

use greenlane_interpreter::endings::guard_at_exit;
use greenlane_process::control_socket::{serve, Serving};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct ControlSocket(Serving);

#[pymethods]
impl ControlSocket {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, longest: usize, answer: Py<PyAny>) -> PyResult<Self> {
        guard_at_exit(py)?;
        let ask = move |line: Option<&[u8]>| {
            let told = Python::try_attach(|py| {
                let line = line.map(|line| PyBytes::new(py, line));
                // What it raises is dropped: the program's hooks are the program's.
                let told = answer.call1(py, (line,)).and_then(|told| told.extract(py));
                told.unwrap_or_default()
            });
            told.unwrap_or_default()
        };
        Ok(Self(py.detach(|| serve(&path, longest, ask))?))
    }

    fn is_own(&self) -> bool {
        self.0.is_own()
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.0.stop());
    }
}
