//! What process workers need below Python: shared memory whose blocks end by themselves, sockets that are read without
//! giving up the GIL, and the messages between a worker and its parent.

pub mod channel;
pub mod commons;
pub mod inbox;
mod lender;
mod letter;
pub mod mapping;
pub mod outbox;
pub mod poll;
mod room;
pub mod segment;

use pyo3::prelude::*;
use std::io::Error;

/// The calling thread's `errno` as Python's OSError.
fn last_error() -> PyErr {
    Error::last_os_error().into()
}

/// Whether the last call failed because it was interrupted by a signal.
fn interrupted() -> bool {
    Error::last_os_error().raw_os_error() == Some(libc::EINTR)
}

/// Whether the last call failed because it would have had to wait.
fn would_block() -> bool {
    Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
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
