//! Tracked locks: drop-ins for `threading.Lock` and `threading.RLock` that know who holds them.
//!
//! Each wraps the interpreter's own lock, so blocking, time-outs, signals and fork keep its semantics; what is added is
//! a count per thread, and the end of the phase when an acquire has to wait. A phase that begins while its thread holds
//! such a lock never queues for a permit, so nobody who waits for a permit holds one: no priority inversion.

use crate::face::{self, ThreadFace};
use crate::running;
use greenlane_interpreter::endings::guard_at_exit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Who holds a lock: whose count to lower when it is released, by whomever.
#[derive(Default)]
struct Owner(Mutex<Option<Arc<ThreadFace>>>);

impl Owner {
    fn set(&self) {
        if let Some(face) = face::face() {
            face.lock_taken();
            // Somebody may have released the lock before its new holder could sign here; that count goes back now.
            let stale = self.place().replace(face);
            if let Some(stale) = stale {
                stale.lock_given();
            }
        }
    }

    fn take(&self) -> Option<Arc<ThreadFace>> {
        self.place().take()
    }

    fn clear(&self) {
        if let Some(face) = self.take() {
            face.lock_given();
        }
    }

    fn is_me(&self) -> bool {
        let me = face::face();
        match (&*self.place(), &me) {
            (Some(owner), Some(face)) => Arc::ptr_eq(owner, face),
            _ => false,
        }
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Option<Arc<ThreadFace>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Ends this thread's phase around a wait for a lock.
fn waiting<T>(py: Python<'_>, wait: impl FnOnce() -> T, got: impl FnOnce(&T)) -> T {
    if let Some(mut job) = running::take_job() {
        job.leave(py);
        running::put_job(job);
    }
    let result = wait();
    got(&result);
    if let Some(mut job) = running::take_job() {
        job.enter(py);
        running::put_job(job);
    }
    result
}

/// Lowers the count of the thread that held a lock; if that is this one, its phase may owe a turn now.
fn given(py: Python<'_>, owner: &Arc<ThreadFace>) {
    owner.lock_given();
    if owner.should_take_its_turn() && face::face().is_some_and(|me| Arc::ptr_eq(&me, owner)) {
        if let Some(mut job) = running::take_job() {
            job.take_owed_turn(py);
            running::put_job(job);
        }
    }
}

fn truth(py: Python<'_>, result: &PyResult<Py<PyAny>>) -> bool {
    result
        .as_ref()
        .is_ok_and(|value| value.is_truthy(py).unwrap_or(false))
}

/// The interpreter's own maker of a kind of lock, looked up once a process.
struct Factory {
    name: &'static str,
    found: PyOnceLock<Py<PyAny>>,
}

static LOCK: Factory = Factory::named("allocate_lock");
static RLOCK: Factory = Factory::named("RLock");

impl Factory {
    const fn named(name: &'static str) -> Self {
        Self {
            name,
            found: PyOnceLock::new(),
        }
    }

    fn made<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        let look_up = || Ok::<_, PyErr>(py.import("_thread")?.getattr(self.name)?.unbind());
        Ok(self.found.get_or_try_init(py, look_up)?.bind(py))
    }
}

/// The inner lock's methods, bound once.
struct Inner {
    lock: Py<PyAny>,
    acquire: Py<PyAny>,
    release: Py<PyAny>,
}

impl Inner {
    fn new(py: Python<'_>, factory: &Factory) -> PyResult<Self> {
        guard_at_exit(py)?;
        let lock = factory.made(py)?.call0()?;
        Ok(Self {
            acquire: lock.getattr(intern!(py, "acquire"))?.unbind(),
            release: lock.getattr(intern!(py, "release"))?.unbind(),
            lock: lock.unbind(),
        })
    }

    fn try_acquire(&self, py: Python<'_>) -> PyResult<bool> {
        self.acquire.call1(py, (false,))?.is_truthy(py)
    }

    /// Acquires, ending the phase if that has to wait; `got` runs as soon as the lock is taken.
    fn acquire(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        got: impl Fn(),
    ) -> PyResult<bool> {
        let plain = args.is_empty() && kwargs.is_none_or(|given| given.is_empty());
        if !plain && never_blocks(args, kwargs) {
            // Nothing is waited for, so no phase ends: `Condition.notify` asks so whether its lock is held.
            let taken = self.acquire.call(py, args, kwargs)?.is_truthy(py)?;
            if taken {
                got();
            }
            return Ok(taken);
        }
        if (plain || may_block(args, kwargs)?) && self.try_acquire(py)? {
            got();
            return Ok(true);
        }
        let result = waiting(
            py,
            || self.acquire.call(py, args, kwargs),
            |result| {
                if truth(py, result) {
                    got();
                }
            },
        );
        result?.is_truthy(py)
    }
}

/// Below `threading.TIMEOUT_MAX`; the inner lock says in its own words what is wrong with more.
const LONGEST_S: f64 = 9.2e9;

/// Whether these arguments of `acquire` ask to block, possibly with a time-out. Anything odd is left to the inner lock.
fn may_block(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
    let argument = |index: usize, name: &str| -> PyResult<Option<Bound<'_, PyAny>>> {
        if index < args.len() {
            return args.get_item(index).map(Some);
        }
        kwargs.map_or(Ok(None), |given| given.get_item(name))
    };
    let known = |name: &Bound<'_, PyAny>| {
        name.eq("blocking").unwrap_or(false) || name.eq("timeout").unwrap_or(false)
    };
    if kwargs.is_some_and(|given| !given.keys().iter().all(|name| known(&name))) {
        return Ok(false);
    }
    let blocking = argument(0, "blocking")?.map_or(Ok(true), |value| value.is_truthy())?;
    let timeout = argument(1, "timeout")?.map_or(Ok(-1.0), |value| value.extract::<f64>());
    Ok(blocking
        && args.len() <= 2
        && timeout.is_ok_and(|seconds| seconds == -1.0 || (0.0..LONGEST_S).contains(&seconds)))
}

/// Whether these arguments of `acquire` say `blocking=False`.
fn never_blocks(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> bool {
    let blocking = if args.is_empty() {
        kwargs.and_then(|given| given.get_item("blocking").ok().flatten())
    } else {
        args.get_item(0).ok()
    };
    blocking.is_some_and(|value| value.is_truthy().is_ok_and(|blocks| !blocks))
}

/// Drop-in for `threading.Lock()`.
#[pyclass(frozen, weakref, module = "greenlane._native")]
pub struct Lock {
    inner: Inner,
    owner: Owner,
}

#[pymethods]
impl Lock {
    #[new]
    fn new(py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            inner: Inner::new(py, &LOCK)?,
            owner: Owner::default(),
        })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn acquire(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        self.inner.acquire(py, args, kwargs, || self.owner.set())
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        // Taken before the release: after it, the owner may be somebody else already.
        let owner = self.owner.take();
        let released = self.inner.release.call0(py);
        match (released, owner) {
            (Ok(_), Some(face)) => given(py, &face),
            (Err(error), _) => return Err(error), // It was not locked, so there was no owner.
            (Ok(_), None) => {}
        }
        Ok(())
    }

    fn locked(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.inner.lock.call_method0(py, "locked")
    }

    // The original's old names.

    #[pyo3(signature = (*args, **kwargs))]
    fn acquire_lock(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        self.acquire(py, args, kwargs)
    }

    fn release_lock(&self, py: Python<'_>) -> PyResult<()> {
        self.release(py)
    }

    fn locked_lock(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.locked(py)
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<bool> {
        self.acquire(py, &PyTuple::empty(py), None)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.release(py)
    }

    fn _at_fork_reinit(&self, py: Python<'_>) -> PyResult<()> {
        self.owner.clear();
        self.inner
            .lock
            .call_method0(py, "_at_fork_reinit")
            .map(drop)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "<greenlane tracked {}>",
            self.inner.lock.bind(py).repr()?
        ))
    }
}

/// Drop-in for `threading.RLock()`.
#[pyclass(frozen, weakref, subclass, module = "greenlane._native")]
pub struct RLock {
    inner: Inner,
    owner: Owner,
    /// Recursive acquires; written by the owner only.
    depth: AtomicUsize,
}

#[pymethods]
impl RLock {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))] // Subclasses may take arguments of their own, as with the original.
    fn new(
        py: Python<'_>,
        _args: &Bound<'_, PyTuple>,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Ok(Self {
            inner: Inner::new(py, &RLOCK)?,
            owner: Owner::default(),
            depth: AtomicUsize::new(0),
        })
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn acquire(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<bool> {
        self.inner.acquire(py, args, kwargs, || self.taken(1))
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        // Taken before the release: after it, the owner may be somebody else already. A stranger's release raises.
        let last = self.owner.is_me() && self.depth.fetch_sub(1, Ordering::Relaxed) == 1;
        let owner = if last { self.owner.take() } else { None };
        self.inner.release.call0(py)?;
        if let Some(face) = owner {
            given(py, &face);
        }
        Ok(())
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<bool> {
        self.acquire(py, &PyTuple::empty(py), None)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.release(py)
    }

    fn locked(&self, py: Python<'_>) -> PyResult<bool> {
        // Missing on the original before 3.14.
        if self.owner.is_me() {
            return Ok(true);
        }
        let taken = self.inner.try_acquire(py)?;
        if taken {
            self.inner.release.call0(py)?;
        }
        Ok(!taken)
    }

    fn _is_owned(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.inner.lock.call_method0(py, "_is_owned")
    }

    fn _recursion_count(&self) -> usize {
        if self.owner.is_me() {
            self.depth.load(Ordering::Relaxed)
        } else {
            0
        }
    }

    fn _release_save(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if self.owner.is_me() {
            self.depth.store(0, Ordering::Relaxed);
            self.owner.clear();
        }
        self.inner.lock.call_method0(py, "_release_save")
    }

    fn _acquire_restore(&self, py: Python<'_>, state: &Bound<'_, PyTuple>) -> PyResult<()> {
        let count = state.get_item(0)?.extract()?;
        waiting(
            py,
            || {
                self.inner
                    .lock
                    .call_method1(py, "_acquire_restore", (state,))
            },
            |result| {
                if result.is_ok() {
                    self.taken(count);
                }
            },
        )
        .map(drop)
    }

    fn _at_fork_reinit(&self, py: Python<'_>) -> PyResult<()> {
        self.owner.clear();
        self.depth.store(0, Ordering::Relaxed);
        self.inner
            .lock
            .call_method0(py, "_at_fork_reinit")
            .map(drop)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "<greenlane tracked {}>",
            self.inner.lock.bind(py).repr()?
        ))
    }
}

impl RLock {
    fn taken(&self, count: usize) {
        if self.depth.fetch_add(count, Ordering::Relaxed) == 0 {
            self.owner.set();
        }
    }
}
