//! asyncio and uvloop seen step by step: which task runs, since when it could, and why.
//!
//! | module | is |
//! |---|---|
//! | [`hook`] | sees the calls of a loop's `call_soon`, `call_soon_threadsafe`, `call_at`, `call_later`, `create_task` |
//! | [`callback`] | what it puts into the loop's queue: the callback, with the moment at which it became ready |
//! | [`task`] | what is known of one task |
//! | [`steps`] | which task a callback steps |
//! | [`current_loop`] | this thread's loop: what runs now, and why it runs |
//!
//! Why `call_soon` and not a proxy around each coroutine: CPython's C task puts its own step and its wake-up into the
//! queue by calling the loop's method of that name, whatever the loop. So one place sees a task become ready (and who
//! made it so) *and* can run something before and after its step, while coroutine, task, traceback and context stay
//! what they were. A proxy around the coroutine would see the step, but not the moment when it became ready.
//!
//! What is not seen: the first step of an eager task (3.12+) is part of its creator's step; callbacks of descriptors and
//! of libuv are the loop's own unit.
//!
//! Everything here runs with the GIL of its loop's thread.

mod callback;
mod current_loop;
mod hook;
mod steps;
mod task;

use crate::names;
use crate::switch::on;
use crate::thread_state;
use greenlane_interpreter::endings::guard_at_exit;
use greenlane_process::clock;
use greenlane_recording_format::event::{Event, UnitKind, WaitKind};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// `greenlane._native.Steps`: the face to Python. `_native.pyi` is the manual.
#[pyclass(frozen, module = "greenlane._native")]
pub struct Steps {}

#[pymethods]
impl Steps {
    #[staticmethod]
    fn hook<'py>(
        py: Python<'py>,
        name: &str,
        original: Bound<'py, PyAny>,
        silent: Bound<'py, PyList>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guard_at_exit(py)?;
        hook::make(name, &original, silent)
    }

    /// The job of tasks whose creation nobody saw is the value of `variable` in their context.
    #[staticmethod]
    fn follow(variable: Bound<'_, PyAny>) {
        steps::follow(variable);
    }

    #[staticmethod]
    fn know_python_tasks(step: Bound<'_, PyAny>, wakeup: Bound<'_, PyAny>) {
        steps::know_python_tasks(&step, &wakeup);
    }

    #[staticmethod]
    fn entered() {
        current_loop::enter_run();
    }

    #[staticmethod]
    fn left() {
        current_loop::leave_run();
    }

    #[staticmethod]
    fn arrival() -> (u64, &'static str) {
        if !on() {
            return (0, "handler");
        }
        let current = current_loop::current_loop();
        // SAFETY: a task that runs is alive.
        let came = match unsafe { current.running.as_ref() } {
            Some(task) if !task.has_stepped.get() => Some((task.arrival_ns, task.arrival_exact)),
            _ => current.bytes_came(),
        };
        match came {
            Some((0, _)) | None => (0, "handler"),
            Some((at_ns, true)) => (at_ns, "kernel"),
            Some((at_ns, false)) => (at_ns, "accept"),
        }
    }

    #[staticmethod]
    fn born_ns() -> u64 {
        // SAFETY: as in `arrival`.
        unsafe { current_loop::current_loop().running.as_ref() }.map_or(0, |task| task.born_ns)
    }

    #[staticmethod]
    fn in_task() -> bool {
        !current_loop::current_loop().running.is_null()
    }

    #[staticmethod]
    fn pool_waited(from_ns: u64) {
        if !on() {
            return;
        }
        // A unit of its own: the thread may have worked for the same job meanwhile.
        let waiting = thread_state::new_unit(UnitKind::Task, names::text("waiting for a thread"));
        thread_state::emit(Event::Wait {
            from_ns,
            to_ns: clock::monotonic_ns(),
            unit: waiting.id,
            job: waiting.job,
            kind: WaitKind::Pool,
        });
    }
}
