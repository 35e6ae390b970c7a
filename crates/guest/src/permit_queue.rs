//! Who holds a permit and who is next, shown to Python: native threads for placed calls take turns by it.

use greenlane_policy::order::{Claim, Discipline};
use greenlane_policy::queue::PermitQueue as CoreQueue;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native")]
pub struct PermitQueue(CoreQueue);

#[pymethods]
impl PermitQueue {
    #[new]
    fn new(permits: usize, discipline: &str, ageing_ns: u64) -> PyResult<Self> {
        let discipline = Discipline::named(discipline).ok_or_else(|| {
            PyValueError::new_err(format!(
                "discipline={discipline:?}, expected fifo, deadline or shortest"
            ))
        })?;
        Ok(Self(CoreQueue::new(permits, discipline, ageing_ns)))
    }

    fn request(
        &mut self,
        now_ns: u64,
        ticket: u64,
        arrival_ns: u64,
        deadline_ns: u64,
        expected_ns: u64,
    ) -> bool {
        let claim = Claim {
            arrival_ns,
            deadline_ns,
            expected_ns,
        };
        self.0.request(now_ns, ticket, claim)
    }

    fn release(&mut self, now_ns: u64, ticket: u64) -> Vec<u64> {
        self.0.release(now_ns, ticket)
    }

    fn cancel(&mut self, now_ns: u64, ticket: u64) -> Vec<u64> {
        self.0.cancel(now_ns, ticket)
    }

    fn lend(&mut self, now_ns: u64, ticket: u64) -> Vec<u64> {
        self.0.lend(now_ns, ticket)
    }

    fn holders(&self) -> usize {
        self.0.holders()
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }

    fn expected_ns(&self) -> u64 {
        self.0.expected_ns()
    }
}
