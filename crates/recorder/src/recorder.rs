//! `greenlane._native.Recorder`: the face of the recorder to Python. One a process; `_native.pyi` is the manual.

use crate::calls::{peers, sockets};
use crate::switch::on;
use crate::thread_registry::{lock, registry};
use crate::unit_totals::WAITS;
use crate::{frames, live, names, pending, switch, thread_state, writer};
use greenlane_interpreter::endings::guard_at_exit;
use greenlane_process::clock;
use greenlane_recording_format::event::{ArrivalClock, Event, Outcome, WaitKind, NO_JOB};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

static NEXT_JOB: AtomicU64 = AtomicU64::new(1);
/// The first job since recording was last started or switched on. Older ones may have ended unseen: what works for one is free.
static FIRST_JOB: AtomicU64 = AtomicU64::new(0);

/// (route, jobs, latency ns, cpu ns, io ns, wait ns, jobs by latency, jobs that failed)
type LiveRow = (String, u64, u64, u64, u64, u64, Vec<u32>, u64);

/// See the module.
#[pyclass(frozen, weakref, module = "greenlane._native")]
pub struct Recorder {}

#[pymethods]
impl Recorder {
    #[new]
    fn new() -> Self {
        Self {}
    }

    #[pyo3(signature = (folder, *, max_bytes, about, keep_s=0))]
    fn start(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        max_bytes: u64,
        about: &str,
        keep_s: u64,
    ) -> PyResult<()> {
        guard_at_exit(py)?;
        forget_open_jobs();
        let keep = Duration::from_secs(keep_s);
        py.detach(|| writer::start(&folder, max_bytes, keep, about))
            .map_err(|error| {
                PyOSError::new_err((error.raw_os_error().unwrap_or(0), error.to_string()))
            })
    }

    fn stop(&self, py: Python<'_>) {
        tell_thread_names(py);
        py.detach(writer::stop);
    }

    fn on(&self) {
        if pending::is_pending() || lock(&registry().state).running {
            if !on() {
                forget_open_jobs();
            }
            switch::set(true);
            mark("on");
        }
    }

    fn off(&self) {
        mark("off");
        switch::set(false);
    }

    fn flush(&self, py: Python<'_>) {
        tell_thread_names(py);
        py.detach(writer::flush);
    }

    fn recording(&self) -> bool {
        on()
    }

    fn leave(&self, kind: u8) {
        thread_state::leave(kind);
    }

    fn enter(&self) {
        thread_state::enter();
    }

    fn name(&self, route: &str) {
        if !on() {
            return;
        }
        let (_, job) = thread_state::running();
        if job != NO_JOB {
            thread_state::emit(Event::JobName {
                at_ns: clock::monotonic_ns(),
                job,
                route: names::text(route),
            });
        }
    }

    fn handler(&self, route: &str, function: &Bound<'_, PyAny>) {
        if let Some(line) = frames::function(function) {
            mark(&format!("handler {route}\n{line}"));
        }
    }

    fn pin(&self, route: &str, weight: &str) {
        let _ = (route, weight);
    }

    #[pyo3(signature = (*, arrival_ns=0, spawn_ns=0, deadline_ns=0, clock="handler", host="", parent_job=0))]
    #[allow(clippy::too_many_arguments)] // By keyword.
    fn open(
        &self,
        py: Python<'_>,
        arrival_ns: u64,
        spawn_ns: u64,
        deadline_ns: u64,
        clock: &str,
        host: &str,
        parent_job: u64,
    ) -> PyResult<u64> {
        pending::begin(); // Switched off, too: it can be switched on then.
        if !on() {
            return Ok(NO_JOB);
        }
        let clock = clock_named(clock)?;
        name_thread(py);
        let (unit, before) =
            thread_state::with_unit(|unit| (unit.id, unit.job)).unwrap_or((0, u64::MAX));
        if before != NO_JOB && before >= FIRST_JOB.load(Ordering::Relaxed) {
            return Ok(NO_JOB);
        }
        let job = NEXT_JOB.fetch_add(1, Ordering::Relaxed);
        let at_ns = clock::monotonic_ns();
        thread_state::attach_at(job, at_ns);
        let (arrival_ns, clock) = match arrival_ns {
            0 => (at_ns, ArrivalClock::Handler),
            arrival_ns => (arrival_ns.min(at_ns), clock),
        };
        thread_state::emit(Event::JobOpen {
            at_ns,
            job,
            unit,
            arrival_ns,
            spawn_ns: spawn_ns.min(at_ns),
            deadline_ns,
            clock,
            host: names::text(host),
            parent_job,
        });
        Ok(job)
    }

    #[pyo3(signature = (job, status=0))]
    fn close(&self, job: u64, status: u16) {
        if job == NO_JOB || !on() {
            return;
        }
        let (_, running) = thread_state::running();
        let at_ns = clock::monotonic_ns();
        if running == job {
            thread_state::attach_at(NO_JOB, at_ns);
        }
        thread_state::emit(Event::JobClose { at_ns, job, status });
    }

    fn job(&self) -> u64 {
        thread_state::running().1
    }

    fn attach(&self, job: u64) -> u64 {
        thread_state::attach(job)
    }

    fn arrival(&self, fd: i32) -> (u64, &'static str) {
        match sockets::arrival_on(fd).filter(|_| on()) {
            Some((at_ns, true)) => (at_ns, "kernel"),
            Some((at_ns, false)) => (at_ns, "accept"),
            None => (0, "handler"),
        }
    }

    fn arrival_from(&self, peer: &str, port: u16) -> (u64, &'static str) {
        let peer = peer.parse().map(|ip| SocketAddr::new(ip, port)).ok();
        match peer.and_then(peers::connection_from) {
            Some(fd) => self.arrival(fd),
            None => (0, "handler"),
        }
    }

    fn traced(&self, trace_high: u64, trace_low: u64, span: u64) {
        if !on() {
            return;
        }
        let (_, job) = thread_state::running();
        if job != NO_JOB {
            thread_state::emit(Event::Traced {
                at_ns: clock::monotonic_ns(),
                job,
                trace_high,
                trace_low,
                span,
            });
        }
    }

    #[pyo3(signature = (from_ns, ready_ns, to_ns, deadline_ns, upstream, operation, outcome, own_ns=0))]
    #[allow(clippy::too_many_arguments)] // The fields of one event.
    fn call(
        &self,
        from_ns: u64,
        ready_ns: u64,
        to_ns: u64,
        deadline_ns: u64,
        upstream: &str,
        operation: &str,
        outcome: u8,
        own_ns: u64,
    ) {
        if !on() {
            return;
        }
        let (unit, job) = thread_state::running();
        thread_state::emit(Event::Call {
            from_ns,
            ready_ns,
            to_ns,
            deadline_ns,
            unit,
            job,
            upstream: names::text(upstream),
            operation: names::text(operation),
            outcome: match outcome {
                0 => Outcome::Ok,
                2 => Outcome::Timeout,
                _ => Outcome::Error,
            },
            own_ns,
        });
    }

    fn waited(&self, kind: &str, from_ns: u64, to_ns: u64) -> PyResult<()> {
        thread_state::record_wait(wait_named(kind)?, from_ns, to_ns);
        Ok(())
    }

    fn parked(&self, job: u64, from_ns: u64, to_ns: u64, by: &str) {
        if job != NO_JOB && on() {
            thread_state::emit(Event::Parked {
                from_ns,
                to_ns,
                job,
                by: names::text(by),
            });
        }
    }

    fn unit_totals<'py>(&self, py: Python<'py>) -> PyResult<(u32, u64, u64, Bound<'py, PyDict>)> {
        let (unit, spent) = thread_state::unit_totals().unwrap_or_default();
        let waits = PyDict::new(py);
        for (name, wait_ns) in WAITS.iter().zip(spent.wait_ns) {
            waits.set_item(name, wait_ns)?;
        }
        Ok((unit, spent.cpu_ns, spent.io_ns, waits))
    }

    fn io_ready_ns(&self) -> u64 {
        thread_state::with_unit(|unit| unit.io_ready_ns).unwrap_or(0)
    }

    fn collected(&self, phase: &str, about: &Bound<'_, PyDict>) {
        if !on() {
            return;
        }
        let generation = about.get_item("generation").ok().flatten();
        let generation = generation.and_then(|number| number.extract().ok());
        thread_state::record_collection(phase == "stop", generation.unwrap_or(0));
    }

    fn mark(&self, what: &str) {
        mark(what);
    }

    fn describe(&self, about: &str) {
        writer::describe(about);
    }

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = lock(&registry().state).clone();
        let stats = PyDict::new(py);
        stats.set_item("on", on())?;
        stats.set_item("running", state.running || pending::is_pending())?;
        stats.set_item("started_ns", writer::started_ns())?;
        stats.set_item("events", state.events)?;
        stats.set_item("lost", state.lost)?;
        stats.set_item("written_bytes", state.written_bytes)?;
        stats.set_item("failed", state.failed)?;
        stats.set_item("error", state.error)?;
        stats.set_item("process", state.process)?;
        let live = py.detach(|| {
            let live = lock(&registry().live);
            let in_progress = live.in_progress();
            let by_lag = live.by_lag;
            let oldest_ns = live.oldest_ns();
            let (closed, busy_ns, lag_ns) = (live.closed, live.busy_ns, live.lag_ns);
            let failed = live.failed;
            (
                closed,
                in_progress,
                busy_ns,
                by_lag,
                lag_ns,
                oldest_ns,
                failed,
            )
        });
        stats.set_item("jobs", live.0)?;
        stats.set_item("in_progress", live.1)?;
        stats.set_item("busy_ns", live.2)?;
        stats.set_item("by_lag", live.3.to_vec())?;
        stats.set_item("lag_ns", live.4)?;
        stats.set_item("oldest_ns", live.5)?;
        stats.set_item("failed_jobs", live.6)?;
        Ok(stats)
    }

    fn live(&self, py: Python<'_>) -> Vec<LiveRow> {
        let routes = py.detach(|| lock(&registry().live).routes.clone());
        let row = |(route, sums): (u32, live::RouteSums)| {
            (
                names::of(route).to_owned(),
                sums.jobs,
                sums.latency_ns,
                sums.cpu_ns,
                sums.io_ns,
                sums.wait_ns,
                sums.by_latency.to_vec(),
                sums.failed,
            )
        };
        routes.into_iter().map(row).collect()
    }
}

/// Nothing before the first event: a forked child that leaves immediately has nothing to say.
/// The ends of jobs that are open now may go unseen, or have: they hide no job that is opened from here on.
fn forget_open_jobs() {
    let first = NEXT_JOB.load(Ordering::Relaxed);
    FIRST_JOB.store(first, Ordering::Relaxed);
    lock(&registry().live).follow_from(first);
    sockets::forget_arrivals();
}

fn mark(what: &str) {
    if on() && !pending::is_pending() {
        lock(&registry().marks).push((clock::monotonic_ns(), names::text(what)));
    }
}

/// Writes the thread's Python name down, once a thread. A thread that `threading` does not know keeps its number.
///
/// Never by `current_thread()`: where it knows none, as in gevent's greenlets, it makes one up and keeps it.
fn name_thread(py: Python<'_>) {
    thread_state::with_unit(|_| ());
    if !thread_state::claim_naming() {
        return;
    }
    let number = thread_state::thread();
    let names = names_of_threads(py).unwrap_or_default();
    let name = names.into_iter().find(|(of, _)| *of == number);
    thread_state::name_thread(name.as_ref().map_or("", |(_, name)| name));
}

/// (number in the system, name) of each thread that `threading` knows and did not make up.
///
/// No bytecode runs for it: there a signal's handler might raise what is the program's, and it would be lost here.
///
/// With gevent's monkey patch greenlets are threads to it: the first with a number is the thread, the others run in it.
fn names_of_threads(py: Python<'_>) -> PyResult<Vec<(u32, String)>> {
    let modules = py.import("sys")?.getattr("modules")?;
    let threading = modules.cast::<PyDict>()?.get_item("threading")?;
    let Some(threading) = threading else {
        return Ok(Vec::new());
    };
    let made_up = threading.getattr("_DummyThread")?;
    let mut names: Vec<(u32, String)> = Vec::new();
    for thread in threading.getattr("_active")?.cast::<PyDict>()?.values() {
        let number: Option<u32> = thread.getattr("_native_id")?.extract()?;
        let Some(number) = number.filter(|_| !thread.is_instance(&made_up).unwrap_or(false)) else {
            continue;
        };
        if names.iter().all(|(of, _)| *of != number) {
            names.push((number, thread.getattr("_name")?.extract()?));
        }
    }
    Ok(names)
}

/// Tells the writer the names of all threads: those without jobs never say theirs.
fn tell_thread_names(py: Python<'_>) {
    // At the interpreter's end `threading` may be gone; the threads keep their numbers then.
    if let Ok(told) = names_of_threads(py) {
        let told = told
            .into_iter()
            .map(|(number, name)| (number, names::text(&name)));
        lock(&registry().thread_names).extend(told);
    }
}

fn wait_named(name: &str) -> PyResult<WaitKind> {
    Ok(match name {
        "gil" => WaitKind::Gil,
        "loop" => WaitKind::Loop,
        "permit" => WaitKind::Permit,
        "accept" => WaitKind::Accept,
        "lock" => WaitKind::Lock,
        "pool" => WaitKind::Pool,
        "os" => WaitKind::Os,
        _ => {
            return Err(PyValueError::new_err(format!(
                "kind={name:?}, expected gil, loop, permit, accept, lock, pool or os"
            )))
        }
    })
}

fn clock_named(name: &str) -> PyResult<ArrivalClock> {
    Ok(match name {
        "handler" => ArrivalClock::Handler,
        "spawn" => ArrivalClock::Spawn,
        "accept" => ArrivalClock::Accept,
        "kernel" => ArrivalClock::Kernel,
        "header" => ArrivalClock::Header,
        "enqueue" => ArrivalClock::Enqueue,
        "given" => ArrivalClock::Given,
        _ => {
            return Err(PyValueError::new_err(format!(
                "clock={name:?}, expected handler, spawn, accept, kernel, header, enqueue or given"
            )))
        }
    })
}
