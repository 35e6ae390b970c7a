//! Which task a callback steps.

use super::current_loop::{current_loop, Cause, CurrentLoop, Source};
use super::task::{target, Task};
use crate::names;
use crate::thread_state;
use crate::types;
use greenlane_process::clock;
use greenlane_recording_format::event::{Text, UnitKind, NO_JOB};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::cell::{Cell, UnsafeCell};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

/// `phase.Kind` numbers.
const SOCKET: u8 = 0;
const SLEEP: u8 = 4;
const LOCK: u8 = 5;
const FUTURE: u8 = 7;

/// How a callback steps its task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its first step, or one after it gave way.
    Step,
    /// What it waited for is there.
    Wakeup,
    /// It has run its first step within its creator's, and waits.
    Eager,
}

/// CPython's type of a step, once its layout has been checked.
static STEP_TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(ptr::null_mut());
/// CPython's definition of the method that wakes a task up.
static WAKEUP: AtomicPtr<ffi::PyMethodDef> = AtomicPtr::new(ptr::null_mut());

/// CPython's `TaskStepMethWrapper`, as far as it is looked at.
#[repr(C)]
struct StepWrapper {
    head: PyObject,
    task: *mut PyObject,
}

/// CPython's bound method, likewise.
#[repr(C)]
struct Method {
    head: PyObject,
    function: *mut PyObject,
    of: *mut PyObject,
}

/// The task that `callback` steps, borrowed; None = it is another kind of callback.
#[inline]
pub unsafe fn of(callback: *mut PyObject) -> Option<(*mut PyObject, Kind)> {
    unsafe {
        let kind = ffi::Py_TYPE(callback);
        if kind == STEP_TYPE.load(Ordering::Relaxed) {
            return Some(((*callback.cast::<StepWrapper>()).task, Kind::Step));
        }
        if kind == &raw mut ffi::PyCFunction_Type {
            let method = &*callback.cast::<ffi::PyCFunctionObject>();
            if method.m_ml == WAKEUP.load(Ordering::Relaxed) {
                return Some((method.m_self, Kind::Wakeup));
            }
            return learn_wakeup(method);
        }
        if kind == &raw mut types::PyMethod_Type {
            return python_step(&*callback.cast::<Method>());
        }
        if STEP_TYPE.load(Ordering::Relaxed).is_null() {
            return learn_step(callback);
        }
    }
    None
}

#[cold]
unsafe fn learn_step(callback: *mut PyObject) -> Option<(*mut PyObject, Kind)> {
    unsafe {
        let kind = ffi::Py_TYPE(callback);
        let name = CStr::from_ptr((*kind).tp_name).to_bytes();
        if !name.ends_with(b"TaskStepMethWrapper") {
            return None;
        }
        let task = ffi::PyObject_GetAttrString(callback, c"__self__".as_ptr());
        if task.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        ffi::Py_DECREF(task);
        if (*callback.cast::<StepWrapper>()).task != task {
            return None;
        }
        STEP_TYPE.store(kind, Ordering::Relaxed);
        Some((task, Kind::Step))
    }
}

unsafe fn learn_wakeup(method: &ffi::PyCFunctionObject) -> Option<(*mut PyObject, Kind)> {
    unsafe {
        if WAKEUP.load(Ordering::Relaxed).is_null()
            && !method.m_self.is_null()
            && CStr::from_ptr((*method.m_ml).ml_name) == c"task_wakeup"
        {
            WAKEUP.store(method.m_ml, Ordering::Relaxed);
            return Some((method.m_self, Kind::Wakeup));
        }
    }
    None
}

/// `asyncio`'s task in Python: its steps are bound methods.
static PYTHON_STEP: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static PYTHON_WAKEUP: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

unsafe fn python_step(method: &Method) -> Option<(*mut PyObject, Kind)> {
    if method.function == PYTHON_STEP.load(Ordering::Relaxed) {
        return Some((method.of, Kind::Step));
    }
    (method.function == PYTHON_WAKEUP.load(Ordering::Relaxed)).then_some((method.of, Kind::Wakeup))
}

/// Says what the steps of tasks in Python are called; they live as long as `asyncio`.
pub fn know_python_tasks(step: &Bound<'_, PyAny>, wakeup: &Bound<'_, PyAny>) {
    PYTHON_STEP.store(step.as_ptr(), Ordering::Relaxed);
    PYTHON_WAKEUP.store(wakeup.as_ptr(), Ordering::Relaxed);
}

static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// See `Steps.follow`.
pub fn follow(variable: Bound<'_, PyAny>) {
    let _ = VARIABLE.set(variable.py(), variable.clone().unbind());
}

/// What is known of `task`; a new unit if nothing is. `context` gives what it runs in; null = unknown.
#[inline]
pub unsafe fn see(
    current: &mut CurrentLoop,
    task: *mut PyObject,
    kind: Kind,
    context: impl FnOnce() -> *mut PyObject,
) -> Option<Arc<Task>> {
    match find_task(current, task) {
        Some(known) => Some(Arc::clone(known)),
        None => unsafe { meet(task, kind, context()) },
    }
}

/// What is known of `task`; its address may have been another one's.
#[inline]
fn find_task(current: &CurrentLoop, task: *mut PyObject) -> Option<&Arc<Task>> {
    current
        .tasks
        .get(&(task as usize))
        // SAFETY: the GIL is held.
        .filter(|known| unsafe { target(known.weak) } == task)
}

#[cold]
unsafe fn meet(task: *mut PyObject, kind: Kind, context: *mut PyObject) -> Option<Arc<Task>> {
    let (weak, name) = unsafe {
        let weak = ffi::PyWeakref_NewRef(task, ptr::null_mut());
        if weak.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        (weak, name_of(task))
    };
    // Python ran: what is here may have changed, so it is looked up again.
    let current = current_loop();
    let job = match (kind, current.cause) {
        // Created by what runs now. A callback that was asked for by a job creates for that job.
        (Kind::Step, Some(cause)) if current.running.is_null() => Some(cause.job),
        (Kind::Step, _) => None,
        (Kind::Eager, _) => Some(unsafe { job_in(context) }).filter(|&job| job != NO_JOB),
        // Created unseen: before we were installed.
        (Kind::Wakeup, _) => Some(unsafe { job_in(context) }),
    };
    let before =
        job.and_then(|job| thread_state::with_unit(|unit| std::mem::replace(&mut unit.job, job)));
    let mut unit = thread_state::new_unit(UnitKind::Task, name);
    if let Some(before) = before {
        thread_state::with_unit(|unit| unit.job = before);
    }
    let (mut born_ns, mut came) = (0, None);
    if kind != Kind::Wakeup {
        // It could have run from now on; an eager one waits from now on.
        born_ns = clock::monotonic_ns();
        unit.left_ns = born_ns;
        came = current.bytes_came();
    }
    if kind == Kind::Step {
        unit.known_ns = born_ns;
        unit.ready_ns = born_ns;
        unit.kind = FUTURE;
    }
    let (arrival_ns, arrival_exact) = came.unwrap_or((0, false));
    let met = Arc::new(Task {
        weak,
        born_ns,
        arrival_ns,
        arrival_exact,
        has_stepped: Cell::new(kind != Kind::Step),
        unit: UnsafeCell::new(unit),
    });
    current.tasks.insert(task as usize, Arc::clone(&met));
    current.sweep();
    Some(met)
}

/// A task, or what a program's factory gives for one, has been made. Those that wait in the loop's queue are known; an
/// eager one has run a step within its creator's, and if that has ended it, it needs nothing more.
pub unsafe fn note_task(made: *mut PyObject) {
    let current = current_loop();
    if !current.is_loop || current.running.is_null() || find_task(current, made).is_some() {
        return;
    }
    // Not `attach`: it panics at the interpreter's end, and C is above us.
    let _ = Python::try_attach(|py| {
        // SAFETY: the caller's result lives during the call.
        let bound = unsafe { Bound::from_borrowed_ptr(py, made) };
        let done = bound
            .call_method0("done")
            .and_then(|done| done.extract::<bool>());
        let Ok(context) = bound.call_method0("get_context") else {
            return;
        };
        if done.unwrap_or(true) {
            return;
        }
        let context = context.as_ptr();
        // SAFETY: both live during the call.
        let Some(met) = (unsafe { meet(made, Kind::Eager, context) }) else {
            return;
        };
        // SAFETY: changed by this thread only.
        let job = unsafe { (*met.unit.get()).job };
        if job != NO_JOB && job == unsafe { job_in(context) } && thread_state::running().1 == job {
            // A job that was opened in the eager step is not its creator's, unless that one runs it too.
            let own = VARIABLE.get(py).and_then(|variable| {
                let value = variable.bind(py).call_method1("get", (NO_JOB,)).ok()?;
                value.extract::<u64>().ok()
            });
            thread_state::attach(own.unwrap_or(NO_JOB));
        }
    });
}

/// The name of the task's coroutine.
unsafe fn name_of(task: *mut PyObject) -> Text {
    unsafe {
        let name = Python::try_attach(|py| {
            let task = Bound::from_borrowed_ptr(py, task);
            let name = task
                .call_method0("get_coro")
                .and_then(|coroutine| coroutine.getattr("__qualname__"))
                .and_then(|name| name.extract::<String>());
            name.map_or(0, |name| names::text(&name))
        });
        name.unwrap_or(0)
    }
}

unsafe fn job_in(context: *mut PyObject) -> u64 {
    if context.is_null() {
        return NO_JOB;
    }
    let job = Python::try_attach(|py| {
        let Some(variable) = VARIABLE.get(py) else {
            return NO_JOB;
        };
        // SAFETY: the caller's argument lives during the call.
        let context = unsafe { Bound::from_borrowed_ptr(py, context) };
        context
            .call_method1("get", (variable, NO_JOB))
            .and_then(|job| job.extract())
            .unwrap_or(NO_JOB)
    });
    job.unwrap_or(NO_JOB)
}

/// Takes note that `unit` is ready, and what it has waited for.
pub fn ready(unit: &mut thread_state::Unit, why: Cause) {
    if unit.ready_ns != 0 {
        return;
    }
    unit.kind = match why.source {
        Source::Poll => SOCKET,
        Source::Timer => SLEEP,
        Source::Thread => FUTURE,
        Source::Task if why.job == unit.job => FUTURE,
        Source::Task => LOCK,
    };
    thread_state::set_ready(
        unit,
        why.known_ns,
        why.ready_ns,
        why.known_ns == why.ready_ns,
    );
}

/// Why others become ready while the task of `unit` runs.
pub fn cause_of(unit: &thread_state::Unit) -> Cause {
    if unit.job == NO_JOB && unit.kind == SOCKET && unit.ready_ns != 0 {
        // A task of nobody that bytes woke up hands them on: a reader that serves many. Its reader's lateness is
        // lateness of whom it reads for.
        return Cause {
            source: Source::Poll,
            job: NO_JOB,
            known_ns: unit.known_ns,
            ready_ns: unit.ready_ns,
        };
    }
    Cause {
        source: Source::Task,
        job: unit.job,
        known_ns: 0,
        ready_ns: 0,
    }
}
