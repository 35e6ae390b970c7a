//! `greenlane_policy::burst`, shown to Python.

use greenlane_policy::burst::BurstSketch as CoreSketch;
use pyo3::prelude::*;

/// Quantiles of bursts, to be held against a plain Python twin.
#[pyclass(module = "greenlane_testing._native")]
pub struct BurstSketch(CoreSketch);

#[pymethods]
impl BurstSketch {
    #[new]
    fn new() -> Self {
        Self(CoreSketch::default())
    }

    fn update(&mut self, burst_ns: u64) {
        self.0.update(burst_ns);
    }

    fn forget(&mut self, halvings: u32) {
        self.0.forget(halvings);
    }

    fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0.quantile_ns(quantile)
    }

    fn mean_ns(&self) -> u64 {
        self.0.mean_ns()
    }

    fn mean_over_ns(&self, limit_ns: u64) -> u64 {
        self.0.mean_over_ns(limit_ns)
    }

    fn samples(&self) -> u64 {
        self.0.samples()
    }

    fn weights(&self) -> Vec<u32> {
        self.0.weights()
    }
}
