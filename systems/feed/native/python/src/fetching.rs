//! Fetching packed records: what is written to each shard, and what came back. Sockets are Python's.

use feed_core::asking;
use feed_core::layout::BUCKETS;
use feed_core::resp;
use pyo3::exceptions::{PyConnectionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Questions for the shards that have some ids' records.
#[pyclass(frozen)]
pub struct Asking(asking::Asking);

#[pymethods]
impl Asking {
    #[new]
    fn new(
        py: Python<'_>,
        ids: Vec<u32>,
        shard_of_bucket: Vec<u8>,
        shards: usize,
    ) -> PyResult<Self> {
        let buckets: Option<&[u8; BUCKETS]> = shard_of_bucket.as_slice().try_into().ok();
        let buckets =
            buckets.filter(|buckets| buckets.iter().all(|&shard| usize::from(shard) < shards));
        let buckets = buckets.ok_or_else(|| {
            PyValueError::new_err(format!(
                "asking for records: shard_of_bucket={shard_of_bucket:?}, expected {BUCKETS} numbers below {shards}"
            ))
        })?;
        Ok(Self(
            py.detach(|| asking::Asking::new(&ids, buckets, shards)),
        ))
    }

    fn command<'py>(&self, py: Python<'py>, shard: usize) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.commands[shard])
    }

    fn count(&self, shard: usize) -> usize {
        self.0.counts[shard]
    }
}

/// A shard's answers as they come in.
#[pyclass]
pub struct Replies {
    replies: resp::Replies,
    is_whole: bool,
}

#[pymethods]
impl Replies {
    #[new]
    fn new(expected: usize) -> Self {
        Self {
            replies: resp::Replies::new(expected),
            is_whole: expected == 0,
        }
    }

    fn feed(&mut self, data: &[u8]) -> PyResult<Option<usize>> {
        self.replies.buffer().extend_from_slice(data);
        self.is_whole = self
            .replies
            .read()
            .map_err(|refused| PyConnectionError::new_err(refused.0))?;
        Ok(self.is_whole.then(|| self.replies.rest()))
    }
}

/// Records as they were fetched: values for `rank` and `features`, in the order of the ids that were asked for.
#[pyclass(frozen)]
pub struct Fetched {
    asking: Py<Asking>,
    replies: Vec<Option<Py<Replies>>>,
}

#[pymethods]
impl Fetched {
    #[new]
    fn new(
        py: Python<'_>,
        asking: Py<Asking>,
        replies: Vec<Option<Py<Replies>>>,
    ) -> PyResult<Self> {
        let shards = asking.get().0.commands.len();
        let are_whole = replies.iter().flatten().all(|one| one.borrow(py).is_whole);
        if replies.len() != shards || !are_whole {
            return Err(PyValueError::new_err(format!(
                "taking records: replies of {} shards, expected {shards}, each whole or None",
                replies.len()
            )));
        }
        Ok(Self { asking, replies })
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(crate::unpicklable(
            "Fetched",
            "give native.rank the records as bytes, or place the call inline or thread",
        ))
    }
}

/// Fetched records, held while native code reads them: feeding a reply meanwhile fails.
pub struct Held<'py> {
    fetched: Bound<'py, Fetched>,
    replies: Vec<Option<PyRef<'py, Replies>>>,
}

impl<'py> Held<'py> {
    pub fn new(fetched: Bound<'py, Fetched>) -> PyResult<Self> {
        let py = fetched.py();
        let held = |one: &Option<Py<Replies>>| {
            one.as_ref()
                .map(|one| one.bind(py).try_borrow())
                .transpose()
        };
        let replies = fetched
            .get()
            .replies
            .iter()
            .map(held)
            .collect::<Result<_, _>>()?;
        Ok(Self { fetched, replies })
    }

    pub fn slices(&self) -> Vec<Option<&[u8]>> {
        let replies: Vec<_> = self
            .replies
            .iter()
            .map(|one| one.as_ref().map(|one| &one.replies))
            .collect();
        self.fetched.get().asking.get().0.values(&replies)
    }
}
