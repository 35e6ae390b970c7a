//! `greenlane._native.Resource`: something with places that units wait for, such as a pool of connections.
//!
//! Nothing is written down while nobody waits. Who takes a place notes who it is and where the application asked; what
//! that is called is found out only when it is written: a holder is written when it gives its place back, if somebody has
//! waited meanwhile. One that goes on for long is told as far as it has got when a wait ends: it may never give back.
//!
//! A key (an object's address) names a place from its `take` to its `give`. The lock is only tried: who finds it taken,
//! which the GIL rules out, notes nothing.

use crate::frames::{self, Caller};
use crate::switch::{self, on};
use crate::{names, thread_state};
use greenlane_process::numbers::NumberMap;
use greenlane_process::{clock, forks};
use greenlane_recording_format::event::{Event, ResourceKind, Text, GAVE_UP, HOLDS_STILL};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A shorter wait is none: it is what the pool itself takes.
const WAITED_NS: u64 = 20_000;
/// A hold is told again when it has gone on for so long.
const AGAIN_NS: u64 = 1_000_000_000;
/// More are not followed: their ends are not seen.
const MOST_HOLDS: usize = 4096;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// For a resource that nothing has been told of yet.
pub fn next_number() -> u32 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "greenlane._native")]
pub struct Resource {
    number: u32,
    kind: ResourceKind,
    describe: Py<PyAny>,
    state: Mutex<ResourceState>,
}

#[derive(Default)]
struct ResourceState {
    /// Of which process and which stretch of recording this is: what was taken before may have been given back unseen.
    of: (u64, u32),
    waiting: u32,
    /// When a wait last ended, and when a place was last given back.
    waited_ns: u64,
    given_ns: u64,
    holds: NumberMap<usize, Hold>,
}

struct Hold {
    unit: u32,
    job: u64,
    from_ns: u64,
    told_ns: u64,
    at: AcquireSite,
}

/// Where a place was taken.
enum AcquireSite {
    Line(Option<Caller>),
    Function(Py<PyAny>),
    Known(Text),
}

impl AcquireSite {
    fn text(&self, py: Python<'_>) -> Text {
        let text = match self {
            Self::Line(caller) => caller.as_ref().map(|caller| caller.describe(py)),
            Self::Function(function) => frames::function(function.bind(py)),
            Self::Known(text) => return *text,
        };
        text.map_or(0, |text| names::text(&text))
    }
}

impl Hold {
    fn event(&self, py: Python<'_>, resource: u32, to_ns: u64, flags: u8) -> Event {
        Event::Hold {
            from_ns: self.from_ns,
            to_ns,
            unit: self.unit,
            job: self.job,
            resource,
            flags,
            line: self.at.text(py),
        }
    }
}

#[pymethods]
impl Resource {
    #[new]
    fn new(kind: &str, describe: Py<PyAny>) -> PyResult<Self> {
        Ok(Self {
            number: next_number(),
            kind: kind_named(kind)?,
            describe,
            state: Mutex::default(),
        })
    }

    fn ask(&self) -> u64 {
        if !on() {
            return 0;
        }
        if let Some(mut state) = self.state() {
            state.waiting += 1;
        }
        clock::monotonic_ns()
    }

    #[pyo3(signature = (key, asked_ns, frame=None))]
    fn take(
        &self,
        py: Python<'_>,
        key: usize,
        asked_ns: u64,
        frame: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        if asked_ns != 0 {
            let caller = frames::caller(py, frame, frames::MOST_FRAMES);
            let mut waited = thread_state::take_place_wait();
            // Else it has waited for what the pool does itself, such as a connection that it makes.
            if self.state().is_some_and(|state| state.given_ns < waited.0) {
                waited = (0, 0);
            }
            self.begin(py, key, asked_ns, waited, AcquireSite::Line(caller))?;
        }
        Ok(())
    }

    fn run(&self, py: Python<'_>, key: usize, asked_ns: u64, function: Py<PyAny>) -> PyResult<()> {
        let now_ns = clock::monotonic_ns();
        let (since_ns, waited) = match asked_ns {
            0 => (now_ns, (0, 0)),
            asked_ns => (asked_ns, (asked_ns, now_ns)),
        };
        let at = match function.extract::<Text>(py) {
            Ok(text) => AcquireSite::Known(text),
            Err(_) => AcquireSite::Function(function),
        };
        self.begin(py, key, since_ns, waited, at)
    }

    /// A number for the line of the application that calls.
    #[staticmethod]
    fn line(py: Python<'_>) -> Text {
        let caller = frames::caller(py, None, frames::MOST_FRAMES);
        caller.map_or(0, |caller| names::text(&caller.describe(py)))
    }

    #[pyo3(signature = (asked_ns, frame=None))]
    fn fail(&self, py: Python<'_>, asked_ns: u64, frame: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        if asked_ns == 0 {
            return Ok(());
        }
        let waited = thread_state::take_place_wait();
        let is_wait = is_wait(waited, asked_ns);
        if let Some(mut state) = self.state() {
            state.waiting = state.waiting.saturating_sub(1);
            if is_wait {
                state.waited_ns = state.waited_ns.max(waited.1);
            }
        }
        if is_wait {
            let line = AcquireSite::Line(frames::caller(py, frame, frames::MOST_FRAMES)).text(py);
            self.tell_wait(py, waited, GAVE_UP, line)?;
        }
        Ok(())
    }

    fn give(&self, py: Python<'_>, key: usize) {
        let Some(mut state) = self.state() else {
            return;
        };
        let now_ns = clock::monotonic_ns();
        state.given_ns = now_ns;
        let held = state.holds.remove(&key);
        let (waiting, waited_ns) = (state.waiting, state.waited_ns);
        drop(state);
        if let Some(hold) = held.filter(|hold| waiting > 0 || waited_ns > hold.from_ns) {
            thread_state::emit(hold.event(py, self.number, now_ns, 0));
        }
    }

    fn holds(&self) -> usize {
        self.state().map_or(0, |state| state.holds.len())
    }
}

impl Resource {
    fn state(&self) -> Option<MutexGuard<'_, ResourceState>> {
        let mut state = self.state.try_lock().ok()?;
        let now = (forks::generation(), switch::times());
        if state.of != now {
            *state = ResourceState {
                of: now,
                ..ResourceState::default()
            };
        }
        Some(state)
    }

    fn begin(
        &self,
        py: Python<'_>,
        key: usize,
        asked_ns: u64,
        waited: (u64, u64),
        at: AcquireSite,
    ) -> PyResult<()> {
        let (unit, job) = thread_state::running();
        let is_wait = is_wait(waited, asked_ns);
        let asked = is_wait || matches!(at, AcquireSite::Line(_));
        let line = if is_wait { at.text(py) } else { 0 };
        let from_ns = if is_wait { waited.1 } else { asked_ns };
        let hold = Hold {
            unit,
            job,
            from_ns,
            told_ns: from_ns,
            at,
        };
        let mut before = None;
        if let Some(mut state) = self.state() {
            if asked {
                state.waiting = state.waiting.saturating_sub(1);
            }
            if is_wait {
                state.waited_ns = state.waited_ns.max(waited.1);
            }
            // A method that calls itself has taken it within already.
            let within = state
                .holds
                .get(&key)
                .is_some_and(|known| known.from_ns >= asked_ns);
            if state.holds.len() < MOST_HOLDS && !within {
                before = state.holds.insert(key, hold);
            }
        }
        drop(before); // Not under the lock: what it refers to may be the program's to end.
        if is_wait {
            self.tell_wait(py, waited, 0, line)?;
        }
        Ok(())
    }

    fn tell_wait(
        &self,
        py: Python<'_>,
        (from_ns, to_ns): (u64, u64),
        flags: u8,
        line: Text,
    ) -> PyResult<()> {
        let described = self.describe.bind(py).call0();
        let described = described.and_then(|described| described.extract::<(String, i64)>());
        let (name, capacity) = match described {
            Ok(described) => described,
            // A pool that cannot say is one without a name. An interrupt is the program's.
            Err(error) if error.is_instance_of::<PyException>(py) => Default::default(),
            Err(error) => return Err(error),
        };
        let (unit, job) = thread_state::running();
        thread_state::emit(Event::Contention {
            from_ns,
            to_ns,
            unit,
            job,
            resource: self.number,
            kind: self.kind,
            flags,
            capacity: u32::try_from(capacity).unwrap_or(0),
            name: names::text(&name),
            line,
        });
        self.tell_long_holds(py, to_ns);
        Ok(())
    }

    fn tell_long_holds(&self, py: Python<'_>, now_ns: u64) {
        let mut events = Vec::new();
        if let Some(mut state) = self.state() {
            let long = |hold: &&mut Hold| now_ns.saturating_sub(hold.told_ns) > AGAIN_NS;
            for hold in state.holds.values_mut().filter(long) {
                hold.told_ns = now_ns;
                events.push(hold.event(py, self.number, now_ns, HOLDS_STILL));
            }
        }
        events.into_iter().for_each(thread_state::emit);
    }
}

fn is_wait((from_ns, to_ns): (u64, u64), asked_ns: u64) -> bool {
    from_ns >= asked_ns && to_ns.saturating_sub(from_ns) >= WAITED_NS
}

fn kind_named(name: &str) -> PyResult<ResourceKind> {
    Ok(match name {
        "connections" => ResourceKind::Connections,
        "threads" => ResourceKind::Threads,
        "semaphore" => ResourceKind::Semaphore,
        "lock" => ResourceKind::Lock,
        "processes" => ResourceKind::Processes,
        _ => {
            return Err(PyValueError::new_err(format!(
                "kind={name:?}, expected connections, threads, semaphore, lock or processes"
            )))
        }
    })
}
