//! What happens at a bytecode boundary: a thread that was asked to stands still there, if it may.

use crate::counters::add;
use crate::{boundaries, face, running};
use greenlane_process::clock;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Called at the events of our tool in `sys.monitoring`, on whichever thread has met one; see `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (*_event))]
pub fn boundary(py: Python<'_>, _event: &Bound<'_, PyTuple>) {
    let Some(face) = face::face() else { return };
    if face.asked_to_stop() == 0 {
        return; // Another thread that runs the same code.
    }
    let from_ns = clock::thread_cpu_ns();
    boundaries::withdraw(py);
    stand_still(py, from_ns, false);
}

/// As if this thread had been asked to stand still and every waiter were before it.
#[pyfunction]
#[pyo3(signature = (*_event))]
pub fn boundary_of_all(py: Python<'_>, _event: &Bound<'_, PyTuple>) {
    stand_still(py, clock::thread_cpu_ns(), true);
}

fn stand_still(py: Python<'_>, from_ns: u64, forced: bool) {
    let Some(mut job) = running::take_job() else {
        return;
    };
    if job.may_stand_still() && boundaries::may_stand_still(py) {
        job.stand_still(py, forced);
    } else {
        add(&job.shared.counters.stopped_refused, 1);
    }
    let cpu_ns = clock::thread_cpu_ns() - from_ns;
    add(&job.shared.counters.stop_cpu_ns, cpu_ns);
    running::put_job(job);
}
