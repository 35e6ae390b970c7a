//! What is learned of placed functions, for Python: the shell is `greenlane/placement`.

use greenlane_policy::placed::CallProfile as CoreProfile;
use greenlane_policy::weight::{Pin, WeightRule};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct CallProfile {
    rule: WeightRule,
    profile: Mutex<CoreProfile>,
}

#[pymethods]
impl CallProfile {
    #[new]
    #[pyo3(signature = (*, light_ns, quantile, margin, learn_after))]
    fn new(light_ns: u64, quantile: f64, margin: f64, learn_after: u64) -> Self {
        Self {
            rule: WeightRule {
                heavy_ns: light_ns,
                least_ns: light_ns,
                quantile,
                margin,
                learn_after,
            },
            profile: Mutex::default(),
        }
    }

    #[pyo3(signature = (took_ns, computed=false))]
    fn update(&self, took_ns: u64, computed: bool) {
        self.lock().update(took_ns, computed, &self.rule);
    }

    fn computes(&self) -> bool {
        self.lock().computes()
    }

    fn weight(&self) -> &'static str {
        self.lock().weight(&self.rule, Pin::Auto).name()
    }

    fn expected_ns(&self) -> u64 {
        self.lock().expected_ns()
    }

    fn samples(&self) -> u64 {
        self.lock().samples()
    }
}

impl CallProfile {
    /// Never waits for long, and never for the GIL: nothing of Python runs under it.
    fn lock(&self) -> MutexGuard<'_, CoreProfile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
