//! What a gevent program does: its greenlets are units, its hub is their loop.
//!
//! | module | is |
//! |---|---|
//! | [`greenlets`] | which greenlet is which unit; greenlet's C functions |
//! | [`switches`] | the trace function: slices end and begin |
//! | [`roles`] | what the calls of gevent's methods tell |
//! | [`timed_callback`] | goes round a callback that gevent's loop is given |
//! | [`classes`] | gevent's classes |
//!
//! When did a greenlet become able to run? It is resumed by the hub for one of three reasons. A *callback* that somebody
//! queued with `run_callback`: the moment of queueing, exact; [`timed_callback::TimedCallback`] carries it. A *timer*: when it was
//! due. *I/O*: between two polls of the loop; exact if the poll slept, and by the kernel's stamp once the greenlet reads.
//! What the hub only passes on (a select's event, a thread pool's result) keeps the moment of its cause. Who only gives
//! others their turn (`sleep(0)`, a poll or a timeout of 0) could run since it left: its wait is for the loop.
//!
//! Cost: see `bench/costs.py`.

mod classes;
mod greenlets;
mod roles;
mod switches;
mod timed_callback;

use crate::method_hook;
use crate::names;
use greenlane_interpreter::endings::guard_at_exit;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use roles::Role;

/// `greenlane._native.Switches`; `_native.pyi` is the manual.
#[pyclass(frozen, module = "greenlane._native")]
pub struct Switches {}

#[pymethods]
impl Switches {
    #[staticmethod]
    fn install(py: Python<'_>, hub: Option<&Bound<'_, PyType>>) -> PyResult<()> {
        guard_at_exit(py)?;
        if !switches::load() {
            return Err(PyErr::fetch(py));
        }
        if let Some(hub) = hub {
            switches::know_hub(hub.as_type_ptr());
        }
        switches::set_installed(true);
        Ok(())
    }

    #[staticmethod]
    fn uninstall() {
        switches::set_installed(false);
        switches::end();
    }

    #[staticmethod]
    fn installed() -> bool {
        switches::is_installed()
    }

    #[staticmethod]
    fn watch() {
        switches::watch();
    }

    /// What is called in the place of the method `name`, which is `original`.
    #[staticmethod]
    fn lead<'py>(
        name: &str,
        original: &Bound<'py, PyAny>,
        role: &str,
        kind: u8,
        call: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let role = match role {
            "waits" => Role::Waits(kind, names::text(call), roles::timeout_at(name)),
            "run_callback" => Role::RunCallback,
            "hub_wait" => Role::HubWait,
            "expires" => Role::Expires,
            "thread_result" => Role::ThreadResult,
            _ => {
                return Err(PyValueError::new_err(format!(
                "role={role:?}, expected waits, run_callback, hub_wait, expires or thread_result"
            )))
            }
        };
        timed_callback::load(original.py())?;
        method_hook::make(original, Box::new(role))
    }

    #[staticmethod]
    fn finish(result: &Bound<'_, PyAny>) {
        roles::finish(result.as_ptr());
    }

    #[staticmethod]
    fn spawned_ns() -> u64 {
        switches::spawned_ns()
    }

    #[staticmethod]
    fn followed() -> usize {
        greenlets::count()
    }
}
