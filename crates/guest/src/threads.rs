//! Which request gets a thread of a pool next, for Python: the shells are `greenlane/hosts/pool.py` and
//! `hosts/gunicorn/expected.py`.

use greenlane_policy::threads::{is_heavy, learned, nearly_full, turn, Turn};
use pyo3::prelude::*;

/// See `_native.pyi`, which is the manual.
#[pyfunction]
pub fn threads_nearly_full(most: usize) -> usize {
    nearly_full(most)
}

#[pyfunction]
#[pyo3(signature = (most, busy, light, heavy, waiting))]
pub fn threads_turn(
    most: usize,
    busy: usize,
    light: Option<u64>,
    heavy: Option<u64>,
    waiting: usize,
) -> Option<bool> {
    turn(most, busy, light, heavy, waiting).map(|turn| turn == Turn::Heavy)
}

#[pyfunction]
#[pyo3(signature = (share, asked))]
pub fn threads_learned(share: Option<f64>, asked: bool) -> f64 {
    learned(share, asked)
}

#[pyfunction]
pub fn threads_heavy(share: f64) -> bool {
    is_heavy(Some(share))
}
