//! How long garbage is collected, for Python; `_native.pyi` is the manual.
//!
//! It runs no bytecode: between two of them a signal's handler may raise, and what a member of `gc.callbacks` raises is
//! dropped.

use greenlane_process::clock;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct CollectionTime {
    /// 0 = none is under way.
    began_ns: AtomicU64,
    spent_ns: AtomicU64,
}

#[pymethods]
impl CollectionTime {
    #[new]
    fn new() -> Self {
        Self {
            began_ns: AtomicU64::new(0),
            spent_ns: AtomicU64::new(0),
        }
    }

    fn __call__(&self, phase: &str, _about: &Bound<'_, PyAny>) {
        let now_ns = clock::monotonic_ns();
        if phase == "start" {
            self.began_ns.store(now_ns, Ordering::Relaxed);
            return;
        }
        let began_ns = self.began_ns.swap(0, Ordering::Relaxed);
        if began_ns != 0 {
            let spent_ns = now_ns.saturating_sub(began_ns);
            self.spent_ns.fetch_add(spent_ns, Ordering::Relaxed);
        }
    }

    fn spent_ns(&self) -> u64 {
        self.spent_ns.load(Ordering::Relaxed)
    }
}
