//! Which request gets a thread of a pool next, for Python: the shells are `greenlane/hosts/pool.py` and
//! `hosts/gunicorn/heavy_predictor.py`.

use greenlane_policy::threads::{is_heavy, learn_share, nearly_full, next_queue, PoolQueue};
use pyo3::prelude::*;

/// See `_native.pyi`, which is the manual.
#[pyfunction]
pub fn threads_nearly_full(most: usize) -> usize {
    nearly_full(most)
}

#[pyfunction]
#[pyo3(signature = (most, busy, light, heavy, waiting))]
pub fn threads_next_queue(
    most: usize,
    busy: usize,
    light: Option<u64>,
    heavy: Option<u64>,
    waiting: usize,
) -> Option<bool> {
    next_queue(most, busy, light, heavy, waiting).map(|queue| queue == PoolQueue::Heavy)
}

#[pyfunction]
#[pyo3(signature = (share, asked))]
pub fn threads_learn_share(share: Option<f64>, asked: bool) -> f64 {
    learn_share(share, asked)
}

#[pyfunction]
pub fn threads_heavy(share: f64) -> bool {
    is_heavy(Some(share))
}
