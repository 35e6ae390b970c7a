//! Blocking calls of the interpreter's C functions, told to `greenlane.phase`. Which functions, and by which rule, says
//! `greenlane.probes.native`; here is what each rule asks before it takes a call for one that can block.
//!
//! | module | is |
//! |---|---|
//! | [`phase`] | the end of a phase around a call |
//! | [`callers`] | what a wait is for, by who called |
//! | [`locks`], [`sockets`], [`waits`] | the rules |
//! | [`quick_calls`] | socket calls that need no wait, made with the GIL kept |

mod callers;
mod locks;
mod phase;
mod quick_calls;
mod sockets;
mod waits;

pub use waits::number;

use greenlane_interpreter::endings::guard_at_exit;
use greenlane_methods::table::{self, Owner, Rule};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCode;

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (callable, rule, kind, at=0, name=None, mask=0, asks=vec![]))]
#[allow(clippy::too_many_arguments)] // One row of a table, by name.
pub fn blocking_see(
    callable: &Bound<'_, PyAny>,
    rule: &str,
    kind: u8,
    at: usize,
    name: Option<String>,
    mask: i64,
    asks: Vec<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let py = callable.py();
    guard_at_exit(py)?;
    phase::find(py)?;
    let refused = |why: &'static str| PyValueError::new_err(why);
    let asks = asks
        .iter()
        .map(|each| table::unseen(each).map_err(refused))
        .collect::<PyResult<Vec<_>>>()?;
    let made: Option<Box<dyn Rule>> = match locks::rule_named(rule, callable, &asks)? {
        Some(made) => Some(made),
        None => match sockets::rule_named(rule, callable, kind, at, &asks) {
            Some(made) => Some(made),
            None => waits::rule_named(rule, kind, at, name, mask, &asks),
        },
    };
    let made = made.ok_or_else(|| refused("no such rule"))?;
    table::see(callable, Owner::Blocking, made).map_err(refused)
}

/// See `_native.pyi`.
#[pyfunction]
pub fn blocking_put_back(py: Python<'_>) {
    table::restore(Owner::Blocking);
    locks::restore(py);
}

/// See `_native.pyi`.
#[pyfunction]
pub fn blocking_report_all(all_threads: bool) {
    phase::report_all(all_threads);
}

/// See `_native.pyi`.
#[pyfunction]
pub fn blocking_within(code: &Bound<'_, PyCode>, kind: u8) {
    callers::know(code, kind);
}
