//! Our descriptors, for Python; `_native.pyi` is the manual.

use greenlane_process::descriptors;
use pyo3::prelude::*;

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct Descriptor(descriptors::Descriptor);

#[pymethods]
impl Descriptor {
    #[new]
    fn new(fd: i32) -> Self {
        Self(descriptors::Descriptor::take(fd))
    }

    fn fileno(&self) -> i32 {
        self.0.number()
    }

    fn is_ours(&self) -> bool {
        self.0.is_ours()
    }

    fn close(&self) {
        self.0.close();
    }
}

/// See `_native.pyi`.
#[pyfunction]
pub fn die_with_parent(parent: i32) -> bool {
    // SAFETY: no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        libc::getppid() == parent
    }
}
