//! `greenlane._native.Permits`: the view of one process's permits to Python.

use crate::counters::{add, Counters};
use crate::gate::forked::ForkedGate;
use crate::gate::{Bounds, Gate};
use crate::heavy::Heavy;
use crate::interval::Interval;
use crate::job::{Job, Totals};
use crate::requests::Requests;
use crate::routes::{PhaseRow, Route, Routes, INHERIT};
use crate::shared::{Mode, Shared};
use crate::{places, running, thread_view};
use greenlane_interpreter::endings::guard_at_exit;
use greenlane_interpreter::gil_enabled;
use greenlane_policy::weight::{Pin, WeightRule};
use greenlane_process::clock;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyString};
use pyo3::{PyTraverseError, PyVisit};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Blocking calls of kinds up to this may raise in a late job: socket, TLS, DNS. They can time out anyway.
const LAST_RAISING_KIND: u8 = 2;

/// (phase, place, weights, mean_ns, samples, looks, free, weight)
type Row = (usize, u64, u64, u32, u32, &'static str);

/// See `_native.pyi`, which is the manual.
#[pyclass(frozen, weakref, module = "greenlane._native")]
pub struct Permits {
    shared: Arc<Shared>,
    requests: OnceLock<Requests>,
    /// Whether jobs are named while they run: by a framework, or by the middleware's `route`.
    named: AtomicBool,
}

#[pymethods]
impl Permits {
    #[new]
    #[pyo3(signature = (*, permits, heavy_ns, quantile, margin, learn_after, max_routes, max_phases, wait_max_ns,
        share_ns, interval_s, mode, permits_with_gil=1, late_error=None))]
    #[allow(clippy::too_many_arguments)] // A constructor by keyword; the settings are declared in greenlane.settings.
    fn new(
        py: Python<'_>,
        permits: usize,
        heavy_ns: u64,
        quantile: f64,
        margin: f64,
        learn_after: u64,
        max_routes: usize,
        max_phases: usize,
        wait_max_ns: u64,
        share_ns: u64,
        interval_s: f64,
        mode: &str,
        permits_with_gil: usize,
        late_error: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        guard_at_exit(py)?;
        let heavy = Heavy::new(heavy_ns);
        let bounds = Bounds {
            wait_ns: wait_max_ns,
            share_ns,
            least_ns: heavy_ns,
            heavy_ns: heavy.limit_ns(),
        };
        let shared = Arc::new(Shared {
            least_rule: WeightRule {
                heavy_ns,
                least_ns: heavy_ns,
                quantile,
                margin,
                learn_after,
            },
            heavy,
            last_phase: max_phases.max(1) - 1,
            routes: Routes::new(max_routes),
            forked_gate: ForkedGate::new(Gate::new(permits, bounds, gil_enabled(py)?)),
            counters: Counters::default(),
            permits_with_gil,
            interval: Interval::new(py, interval_s)?,
            lingers: AtomicBool::new(false),
            late_error,
            mode: AtomicU8::new(parse_mode(mode)? as u8),
            own_modes: AtomicBool::new(false),
        });
        Ok(Self {
            shared,
            requests: OnceLock::new(),
            named: AtomicBool::new(false),
        })
    }

    #[pyo3(signature = (*, deadlines, due, always, shape))]
    fn read_requests(
        &self,
        deadlines: Vec<Py<PyString>>,
        due: Py<PyAny>,
        always: bool,
        shape: Py<PyAny>,
    ) {
        // Told again, it is the same service's.
        let _ = self.requests.set(Requests {
            deadlines,
            due,
            always,
            shape,
        });
    }

    #[pyo3(signature = (environ, arrival_ns=0))]
    fn open_request(&self, environ: &Bound<'_, PyDict>, arrival_ns: u64) -> PyResult<bool> {
        let Some(requests) = self.requests.get().filter(|_| self.opens()) else {
            return Ok(false);
        };
        let arrival_ns = match arrival_ns {
            0 => clock::monotonic_ns(),
            known => known,
        };
        let due_ns = requests.due_ns(environ, arrival_ns)?;
        let named = self.named.load(Ordering::Relaxed);
        let route = match named {
            true => None,
            false => Some(requests.route(environ)?),
        };
        let route = route.as_ref().map(|name| name.extract::<&str>());
        Ok(self.open(environ.py(), arrival_ns, due_ns, route.transpose()?))
    }

    #[pyo3(signature = (arrival_ns, deadline_ns=0, route=None))]
    fn open(&self, py: Python<'_>, arrival_ns: u64, deadline_ns: u64, route: Option<&str>) -> bool {
        if !self.opens() {
            return false;
        }
        let Some(view) = thread_view::thread_view() else {
            return false;
        };
        if !self.shared.gate().is_held() {
            self.shared.restore_interval(py); // Left short by a thread that died with the permit.
        }
        let route = route.map(|name| self.route(name));
        let job = Job::open(py, &self.shared, view, route, arrival_ns, deadline_ns);
        running::put_job(Box::new(job));
        true
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.requests.get() {
            Some(requests) => requests.traverse_kept(&visit),
            None => Ok(()),
        }
    }

    fn close(&self, py: Python<'_>) -> Option<(u64, u64, u64, u64, u64)> {
        let totals: Totals = self.take_own_job()?.close(py);
        Some((
            totals.cpu_ns,
            totals.wait_ns,
            totals.late_cpu_ns,
            totals.phases,
            totals.heavy,
        ))
    }

    fn pause(&self, py: Python<'_>) -> Option<Paused> {
        let mut job = self.take_own_job()?;
        job.pause(py);
        Some(Paused {
            job: Mutex::new(Some(job)),
        })
    }

    fn leave(&self, py: Python<'_>, kind: u8) -> PyResult<()> {
        // Asked before the job is taken out: what makes frames may collect garbage, and a finalizer may block.
        let place = match running::has_job_that(Job::runs) {
            true => places::call_site(py),
            false => places::OPENED,
        };
        if let Some(mut job) = running::take_job() {
            if let Some(error) = late_error(py, &job, kind) {
                running::put_job(job);
                return Err(PyErr::from_value(error.bind(py).call0()?));
            }
            job.leave(py, place);
            running::put_job(job);
        }
        Ok(())
    }

    fn enter(&self, py: Python<'_>) {
        if let Some(mut job) = running::take_job() {
            job.enter(py);
            running::put_job(job);
        }
    }

    fn name(&self, py: Python<'_>, route: &str) {
        self.named.store(true, Ordering::Relaxed);
        if let Some(mut job) = self.take_own_job() {
            job.name(py, self.route(route));
            running::put_job(job);
        }
    }

    fn pin(&self, route: &str, weight: &str) -> PyResult<()> {
        let pin = match weight {
            "heavy" => Pin::Heavy,
            "light" => Pin::Light,
            "native" => Pin::Native,
            "auto" => Pin::Auto,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "weight={weight:?}, expected heavy, light, native or auto"
                )))
            }
        };
        if let (route, true) = self.shared.routes.get(route) {
            route.set_pin(pin); // Never that of "(other)".
        }
        Ok(())
    }

    fn active(&self) -> bool {
        running::has_job()
    }

    fn deadline_ns(&self) -> u64 {
        self.with_job(|job| job.deadline_ns).unwrap_or(0)
    }

    fn remaining_ms(&self) -> Option<u64> {
        let deadline_ns = self
            .with_job(|job| job.deadline_ns)
            .filter(|&due_ns| due_ns != 0)?;
        Some(deadline_ns.saturating_sub(clock::monotonic_ns()) / 1_000_000)
    }

    #[pyo3(signature = (route=None))]
    fn mode(&self, route: Option<&str>) -> &'static str {
        match route {
            Some(name) => self.shared.mode_of(&self.route(name)).name(),
            None => Mode::of(self.shared.mode.load(Ordering::Relaxed)).name(),
        }
    }

    #[pyo3(signature = (mode, route=None))]
    fn set_mode(&self, mode: &str, route: Option<&str>) -> PyResult<()> {
        let Some(name) = route else {
            self.shared
                .mode
                .store(parse_mode(mode)? as u8, Ordering::Relaxed);
            if mode != "on" {
                self.shared.gate().release_waiters();
            }
            return Ok(());
        };
        let value = match mode {
            "inherit" => INHERIT,
            _ => parse_mode(mode)? as u8,
        };
        if let (route, true) = self.shared.routes.get(name) {
            route.set_mode(value);
            self.shared.own_modes.store(true, Ordering::Relaxed);
            if mode != "on" {
                self.shared.gate().release_waiters_of(&route); // Those who should still take turns ask at their next phase.
            }
        }
        Ok(())
    }

    fn linger(&self, py: Python<'_>, lingers: bool) {
        self.shared.lingers.store(lingers, Ordering::Relaxed);
        if !lingers {
            self.shared.restore_interval(py);
        }
    }

    fn forked(&self, py: Python<'_>) {
        self.shared.lingers.store(false, Ordering::Relaxed);
        self.shared.counters.reset();
        self.shared
            .routes
            .all()
            .iter()
            .for_each(|route| route.turns.reset());
        self.shared.restore_interval(py);
    }

    fn pressure(&self) -> (usize, usize) {
        self.shared.gate().pressure()
    }

    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.shared.counters.snapshot().into_py_dict(py)
    }

    fn turns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let routes = self.shared.routes.all();
        let rows = routes
            .iter()
            .map(|route| (&route.name, route.turns.snapshot()))
            .filter(|(_, counts)| counts.iter().any(|&(_, count)| count > 0));
        let found = PyDict::new(py);
        for (name, counts) in rows {
            found.set_item(name, counts.into_py_dict(py)?)?;
        }
        Ok(found)
    }

    fn learned(&self) -> Vec<(String, &'static str, Vec<Row>)> {
        let route_row = |route: &Arc<Route>| {
            let rows = route
                .rows(&self.shared.rule())
                .into_iter()
                .map(row)
                .collect();
            (route.name.clone(), pin_name(route.pin()), rows)
        };
        self.shared.routes.all().iter().map(route_row).collect()
    }
}

impl Permits {
    /// Whether a job would be opened on this thread now.
    fn opens(&self) -> bool {
        let off = self.shared.mode.load(Ordering::Relaxed) == Mode::Off as u8;
        (!off || self.shared.own_modes.load(Ordering::Relaxed)) && !running::has_job()
    }

    /// Takes this thread's job out, if these permits opened it.
    fn take_own_job(&self) -> Option<Box<Job>> {
        let job = running::take_job()?;
        if Arc::ptr_eq(&job.shared, &self.shared) {
            return Some(job);
        }
        running::put_job(job);
        None
    }

    fn with_job<T>(&self, read: impl FnOnce(&Job) -> T) -> Option<T> {
        let job = self.take_own_job()?;
        let value = read(&job);
        running::put_job(job);
        Some(value)
    }

    fn route(&self, name: &str) -> Arc<Route> {
        let (route, fits) = self.shared.routes.get(name);
        if !fits {
            add(&self.shared.counters.routes_refused, 1);
        }
        route
    }
}

/// A job between two threads or two chunks of a response. Dropping it ends the job.
#[pyclass(frozen, module = "greenlane._native")]
pub struct Paused {
    job: Mutex<Option<Box<Job>>>,
}

#[pymethods]
impl Paused {
    fn resume(&self, py: Python<'_>) -> bool {
        if running::has_job() {
            return false;
        }
        let Some(view) = thread_view::thread_view() else {
            return false;
        };
        let taken = self
            .job
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut job) = taken else { return false };
        job.resume(py, view);
        running::put_job(job);
        true
    }
}

fn late_error(py: Python<'_>, job: &Job, kind: u8) -> Option<Py<PyAny>> {
    let error = job.shared.late_error.as_ref()?;
    (kind <= LAST_RAISING_KIND && job.is_late()).then(|| error.clone_ref(py))
}

fn row(row: PhaseRow) -> Row {
    (
        row.phase,
        row.mean_ns,
        row.samples,
        row.looks,
        row.free,
        row.weight.name(),
    )
}

fn pin_name(pin: Pin) -> &'static str {
    match pin {
        Pin::Auto => "auto",
        Pin::Heavy => "heavy",
        Pin::Light => "light",
        Pin::Native => "native",
    }
}

fn parse_mode(name: &str) -> PyResult<Mode> {
    Mode::parse(name)
        .ok_or_else(|| PyValueError::new_err(format!("mode={name:?}, expected on, observe or off")))
}

/// Tracked locks that the calling thread holds.
#[pyfunction]
pub fn locks_held() -> PyResult<i64> {
    thread_view::thread_view()
        .map(|view| view.locks_held())
        .ok_or_else(|| PyRuntimeError::new_err("this thread is ending"))
}
