//! What a request says of itself, read from its WSGI environ in one step: Python runs only for what is rare.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use pyo3::{PyTraverseError, PyVisit};

/// How to read requests.
pub struct Requests {
    /// Keys under which a deadline may stand.
    pub deadlines: Vec<Py<PyString>>,
    /// Reads it: (environ, arrival in ns) -> when it is due, ns; 0 = never.
    pub due: Py<PyAny>,
    /// Whether a request without such a key may have one all the same.
    pub always: bool,
    /// Names a request whose framework does not: (method, path) -> route.
    pub shape: Py<PyAny>,
}

impl Requests {
    /// When the request is due, ns; 0 = never.
    pub fn due_ns(&self, environ: &Bound<'_, PyDict>, arrival_ns: u64) -> PyResult<u64> {
        let py = environ.py();
        let mut said = self.always;
        for key in &self.deadlines {
            said = said || environ.contains(key)?;
        }
        match said {
            true => self.due.call1(py, (environ, arrival_ns))?.extract(py),
            false => Ok(0),
        }
    }

    /// Its route.
    pub fn route<'py>(&self, environ: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let py = environ.py();
        let method = environ.get_item(intern!(py, "REQUEST_METHOD"))?;
        let path = environ.get_item(intern!(py, "PATH_INFO"))?;
        let nothing = || intern!(py, "").clone().into_any();
        let named = (method.unwrap_or_else(nothing), path.unwrap_or_else(nothing));
        self.shape.bind(py).call1(named)
    }

    /// What it keeps alive, for the garbage collector.
    pub fn traverse_kept(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.due)?;
        visit.call(&self.shape)
    }
}
