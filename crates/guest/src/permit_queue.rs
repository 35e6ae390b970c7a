//! Who holds a permit and who is next, shown to Python: native threads for placed calls take turns by it.

use greenlane_policy::order::Claim;
use greenlane_policy::queue::PermitQueue as CoreQueue;
use pyo3::prelude::*;

/// See `_native.pyi`.
#[pyclass(module = "greenlane._native")]
pub struct PermitQueue(CoreQueue);

#[pymethods]
impl PermitQueue {
    #[new]
    fn new(permits: usize) -> Self {
        Self(CoreQueue::new(permits))
    }

    #[pyo3(signature = (now_ns, ticket, arrival_ns, deadline_ns, expected_ns, attained_ns=0, long_ns=0))]
    #[allow(clippy::too_many_arguments)] // A claim, flat.
    fn request(
        &mut self,
        now_ns: u64,
        ticket: u64,
        arrival_ns: u64,
        deadline_ns: u64,
        expected_ns: u64,
        attained_ns: u64,
        long_ns: u64,
    ) -> bool {
        let claim = Claim {
            arrival_ns,
            deadline_ns,
            expected_ns,
            long_ns,
            attained_ns,
        };
        self.0.request(now_ns, ticket, claim)
    }

    fn release(&mut self, ticket: u64) -> Vec<u64> {
        self.0.release(ticket)
    }

    fn cancel(&mut self, ticket: u64) -> Vec<u64> {
        self.0.cancel([ticket])
    }

    fn lend(&mut self, ticket: u64) -> Vec<u64> {
        self.0.lend(ticket)
    }

    fn share(&mut self, ticket: u64) -> Vec<u64> {
        self.0.share(ticket)
    }

    fn call_back(&mut self, ticket: u64) {
        self.0.call_back(ticket);
    }

    fn holders(&self) -> usize {
        self.0.holders()
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }
}
