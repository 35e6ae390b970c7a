//! The interpreter's switch interval: short only while somebody holds a permit.
//!
//! While a heavy phase computes, whoever wakes from I/O should get the GIL within half a millisecond; while nobody does,
//! the interpreter's own value serves better. All calls need the GIL.

use crate::counters::{add, Counters};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// See the module.
pub struct Interval {
    short_s: f64,
    get: Py<PyAny>,
    set: Py<PyAny>,
    /// The value to go back to, while ours is in force.
    original_s: Mutex<Option<f64>>,
}

impl Interval {
    /// None on a free-threaded build, where the interval means nothing.
    pub fn new(py: Python<'_>, short_s: f64) -> PyResult<Option<Self>> {
        let sys = py.import("sys")?;
        if !gil_enabled(py)? {
            return Ok(None);
        }
        Ok(Some(Self {
            short_s,
            get: sys.getattr("getswitchinterval")?.unbind(),
            set: sys.getattr("setswitchinterval")?.unbind(),
            original_s: Mutex::new(None),
        }))
    }

    /// Puts the short interval in force, unless the present one is shorter still.
    pub fn shorten(&self, py: Python<'_>, counters: &Counters) {
        let Some(mut original_s) = self.unless_busy() else {
            return;
        };
        if original_s.is_some() {
            return;
        }
        if let Some(now_s) = self.present(py).filter(|&now_s| now_s > self.short_s) {
            if self.set.call1(py, (self.short_s,)).is_ok() {
                *original_s = Some(now_s);
                add(&counters.interval_changes, 1);
            }
        }
    }

    /// Goes back to the interval found, unless somebody else has changed it meanwhile: then theirs stays.
    pub fn restore(&self, py: Python<'_>, counters: &Counters) {
        let Some(mut original_s) = self.unless_busy() else {
            return;
        };
        if let Some(before_s) = original_s.take() {
            let ours = self
                .present(py)
                .is_some_and(|now_s| (now_s - self.short_s).abs() < 1e-6);
            if ours && self.set.call1(py, (before_s,)).is_ok() {
                add(&counters.interval_changes, 1);
            }
        }
    }

    /// The value to go back to, unless another thread is changing the interval: Python code may run under this lock
    /// (somebody has replaced `sys.setswitchinterval`), so waiting for it would keep the GIL from that thread. A change
    /// that is missed so is made at the next event.
    fn unless_busy(&self) -> Option<MutexGuard<'_, Option<f64>>> {
        match self.original_s.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn present(&self, py: Python<'_>) -> Option<f64> {
        self.get.call0(py).ok()?.extract(py).ok()
    }
}

/// Whether this interpreter runs with a GIL now.
pub fn gil_enabled(py: Python<'_>) -> PyResult<bool> {
    match py.import("sys")?.getattr("_is_gil_enabled") {
        Ok(ask) => ask.call0()?.extract(),
        Err(_) => Ok(true),
    }
}
