//! How the last system call of this thread ended.

use pyo3::PyErr;
use std::io::Error;

/// The calling thread's `errno` as Python's OSError.
pub fn last_error() -> PyErr {
    Error::last_os_error().into()
}

/// Whether the last call failed because it was interrupted by a signal.
pub fn interrupted() -> bool {
    Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

/// Whether the last call failed because it would have had to wait.
pub fn would_block() -> bool {
    Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
}
