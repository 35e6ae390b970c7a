//! Answers "is it well, and why not" over HTTP, for Python, from native threads that need no GIL; `_native.pyi` is the
//! manual.
//!
//! One thread looks a few times a second, which takes the GIL. The other one answers, and never does: it gives what the
//! last look has found, or that no look has had the GIL since.

mod collections;
mod server;
mod siblings;
mod status;
mod urgency;

pub use collections::CollectionTime;
use greenlane_interpreter::endings::guard_at_exit;
use greenlane_process::{clock, our_threads, signals};
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use server::Server;
use status::Shared;
use std::net::SocketAddr;
use std::os::unix::net::SocketAddr as UnixAddr;
use std::sync::atomic::Ordering;
use std::sync::{mpsc, Arc};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// For the thread that answers to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct Health {
    shared: Arc<Shared>,
    bell: UnixAddr,
    pid: u32,
    looker: Thread,
}

#[pymethods]
impl Health {
    #[new]
    fn new(
        py: Python<'_>,
        address: &str,
        every_ns: u64,
        after_ns: u64,
        hung_ns: u64,
        look: Py<PyAny>,
    ) -> PyResult<Self> {
        guard_at_exit(py)?;
        let address: SocketAddr = address.parse().map_err(std::io::Error::other)?;
        let shared = Arc::new(Shared::new(after_ns, hung_ns));
        let (report, reported) = mpsc::sync_channel(1);
        let theirs = Arc::clone(&shared);
        start(move || match Server::new(address) {
            Ok(server) => {
                let _ = report.send(Ok(server.bell()));
                server.answer_until_over(&theirs);
            }
            Err(error) => drop(report.send(Err(error))),
        })?;
        let made = py.detach(move || reported.recv());
        let bell = made.map_err(|_| PyRuntimeError::new_err("its thread has ended"))??;
        let theirs = Arc::clone(&shared);
        let pid = std::process::id();
        match start(move || look_until_over(&theirs, every_ns, &look)) {
            Ok(looker) => Ok(Self {
                shared,
                bell,
                pid,
                looker,
            }),
            Err(error) => {
                shared.over.store(true, Ordering::Release);
                let _bell = siblings::connect(&bell);
                Err(error.into())
            }
        }
    }

    fn tell(&self, ok: bool, live: bool, reason: String, threads: Vec<(i32, String)>) {
        self.shared.tell(ok, live, reason, threads);
    }

    fn is_own(&self) -> bool {
        self.pid == std::process::id()
    }

    fn stop(&self, py: Python<'_>) {
        self.shared.over.store(true, Ordering::Release);
        if !self.is_own() {
            return;
        }
        py.detach(|| {
            let until = Instant::now() + PATIENCE;
            // Refused where others wait: then the thread is awake.
            let _bell = siblings::connect(&self.bell);
            self.looker.unpark();
            while !self.shared.ended.load(Ordering::Acquire) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
}

/// Has `call` called on the main thread as soon as that runs Python code, as a signal's handler is. False: too many
/// calls are waiting.
#[pyfunction]
pub fn call_in_main_thread(call: Py<PyAny>) -> bool {
    extern "C" fn run(call: *mut std::ffi::c_void) -> std::ffi::c_int {
        Python::attach(|py| {
            // SAFETY: the box that was leaked below, once.
            let call = unsafe { Box::from_raw(call.cast::<Py<PyAny>>()) };
            match call.call0(py) {
                // A signal's handler has met it there, and ends the program.
                Err(error) if !error.is_instance_of::<PyException>(py) => {
                    error.restore(py);
                    -1
                }
                // What else it raises is dropped: the program's hooks are the program's.
                _ => 0,
            }
        })
    }
    let call = Box::into_raw(Box::new(call));
    // SAFETY: the interpreter calls it once, holding the GIL.
    let refused = unsafe { pyo3::ffi::Py_AddPendingCall(Some(run), call.cast()) } != 0;
    if refused {
        // SAFETY: nobody else has it.
        drop(unsafe { Box::from_raw(call) });
    }
    !refused
}

fn start(run: impl FnOnce() + Send + 'static) -> std::io::Result<Thread> {
    let thread = std::thread::Builder::new()
        .name("greenlane-health".to_owned())
        .stack_size(512 * 1024);
    let run = || {
        our_threads::mark();
        urgency::shorten_slice();
        run();
    };
    signals::with_all_blocked(|| thread.spawn(run)).map(|handle| handle.thread().clone())
}

fn look_until_over(shared: &Shared, every_ns: u64, look: &Py<PyAny>) {
    while !shared.over.load(Ordering::Acquire) {
        let asked_ns = clock::monotonic_ns();
        shared.asked_ns.store(asked_ns, Ordering::Release);
        let looked = Python::try_attach(|py| {
            let waited_ns = clock::monotonic_ns().saturating_sub(asked_ns);
            // What it raises is dropped: the program's hooks are the program's.
            let _ = look.call1(py, (waited_ns,));
        });
        if looked.is_none() {
            return; // The interpreter is ending.
        }
        shared.asked_ns.store(0, Ordering::Release);
        std::thread::park_timeout(Duration::from_nanos(every_ns));
    }
}
