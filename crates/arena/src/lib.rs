//! What process workers need below Python: shared memory whose blocks end by themselves, sockets that are read without
//! giving up the GIL, and the messages between a worker and its parent.

pub mod channel;
pub mod commons;
pub mod inbox;
mod lender;
mod letter;
mod mapping;
pub mod outbox;
pub mod poll;
mod room;
pub mod segment;
mod system;

use pyo3::prelude::*;

/// See `_native.pyi`.
#[pyfunction]
pub fn die_with_parent(parent: i32) -> bool {
    // SAFETY: no pointers.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        libc::getppid() == parent
    }
}
