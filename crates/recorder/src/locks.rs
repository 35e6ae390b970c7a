//! Who has one of the interpreter's locks while a job waits for it: `threading.Lock`, `RLock`, and what is made of them.
//!
//! A lock is known by its address, from an acquire that we see to its release, by whomever, or its end. Who takes one
//! notes who it is and the code that did; it is written down when it gives the lock back, if a job has waited meanwhile.
//! A lock that its own holder waits for is a signal, which somebody else is to give: nobody has it.
//!
//! The table's lock is only tried: who finds it taken, which the GIL rules out, notes nothing.
//!
//! Cost: at most 1 us an acquire with its release while recorded, most of it the way to the frame.
//! While nobody holds one, a release costs a look at a counter.

use crate::frames::{self, Caller};
use crate::resource::next_number;
use crate::switch::{self, on};
use crate::{names, thread_state};
use greenlane_process::numbers::NumberMap;
use greenlane_process::{clock, forks};
use greenlane_recording_format::event::{Event, ResourceKind, GAVE_UP, NO_JOB};
use pyo3::ffi::{self, PyObject};
use pyo3::Python;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A shorter wait is not told: the locks of queues and executors are taken for some us, again and again.
const LEAST_NS: u64 = 200_000;
/// Frames of a library, such as `Condition.__enter__`, through which the application may call a lock's methods.
const NEAR: usize = 3;
/// More are not followed.
const MOST: usize = 4096;

#[derive(Default)]
struct Table {
    /// Of which process and which stretch of recording it is: what was taken before may have been given back unseen.
    of: (u64, u32),
    held: NumberMap<usize, HeldLock>,
    /// Numbers of those that were waited for.
    numbers: NumberMap<usize, u32>,
}

impl Table {
    fn count(&self) {
        HELD.store(self.held.len() + self.numbers.len(), Ordering::Relaxed);
    }
}

struct HeldLock {
    unit: u32,
    job: u64,
    /// `pthread_self`, and the `PyThreadState`.
    thread: usize,
    state: usize,
    depth: usize,
    from_ns: u64,
    at: Option<Caller>,
    /// The lock's number once somebody waits for it; 0 = nobody did.
    number: u32,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Whether any lock is known.
#[inline]
pub fn any() -> bool {
    HELD.load(Ordering::Relaxed) != 0
}

/// The calling thread has acquired `lock`, `times` times.
pub fn note_acquire(py: Python<'_>, lock: usize, times: usize, recursive: bool) {
    let (unit, job) = if on() {
        thread_state::running()
    } else {
        (0, NO_JOB)
    };
    if unit == 0 {
        return;
    }
    let thread = this_thread();
    if recursive {
        let Some(mut table) = table() else { return };
        if let Some(held) = table.held.get_mut(&lock) {
            if held.thread == thread {
                held.depth += times;
                return;
            }
        }
    }
    let held = HeldLock {
        unit,
        job,
        thread,
        // SAFETY: the thread is attached, so it has a state.
        state: unsafe { ffi::PyThreadState_Get() } as usize,
        depth: times,
        from_ns: clock::monotonic_ns(),
        at: frames::caller(py, None, NEAR),
        number: 0,
    };
    let Some(mut table) = table() else { return };
    let before = if table.held.len() < MOST {
        table.held.insert(lock, held)
    } else {
        None
    };
    table.count();
    drop(table);
    drop(before); // Not under the lock: it refers to the program's code.
}

/// `lock` is about to be released. To be called before it is: afterwards it may be somebody else's already.
pub fn giving(py: Python<'_>, lock: usize, recursive: bool, wholly: bool) {
    let Some(mut table) = table() else { return };
    let Some(held) = table.held.get_mut(&lock) else {
        return;
    };
    if recursive {
        if held.thread != this_thread() {
            return; // A stranger's release raises.
        }
        if !wholly && held.depth > 1 {
            held.depth -= 1;
            return;
        }
    }
    let held = table.held.remove(&lock);
    table.count();
    drop(table);
    if let Some(held) = held.filter(|held| held.number != 0) {
        thread_state::emit(Event::Hold {
            from_ns: held.from_ns,
            to_ns: clock::monotonic_ns(),
            unit: held.unit,
            job: held.job,
            resource: held.number,
            flags: 0,
            line: held.at.map_or(0, |at| names::text(&at.describe(py))),
        });
    }
}

/// `lock` is no more: its memory may become another lock's.
pub fn forget_lock(lock: usize) {
    let Some(mut table) = table() else { return };
    table.numbers.remove(&lock);
    let held = table.held.remove(&lock);
    table.count();
    drop(table);
    drop(held);
}

/// A job's wait for a lock that another thread has.
pub struct Wait {
    number: u32,
    from_ns: u64,
}

/// The calling thread is about to wait for `lock`. None: it has no job, or nobody else is known to have the lock.
pub fn waits(py: Python<'_>, lock: usize) -> Option<Wait> {
    if !any() || !on() || thread_state::running().1 == NO_JOB {
        return None;
    }
    let (number, far) = {
        let mut guard = table()?;
        let Table { held, numbers, .. } = &mut *guard;
        let held = held.get_mut(&lock)?;
        if held.thread == this_thread() {
            return None;
        }
        if numbers.len() >= MOST {
            numbers.clear();
        }
        held.number = *numbers.entry(lock).or_insert_with(next_number);
        let near = held.at.as_ref().is_some_and(|at| at.is_application);
        (held.number, (!near).then_some((held.state, held.from_ns)))
    };
    // Without a GIL the other thread may end meanwhile, and its frames are not ours to walk.
    let far = far.filter(|_| greenlane_interpreter::gil_enabled(py).unwrap_or(false));
    if let Some((state, from_ns)) = far {
        // A library took it, which the application called: it is there still.
        let mut at = frames::caller_of(py, state);
        if let Some(held) = table()?.held.get_mut(&lock) {
            if at.is_some() && held.from_ns == from_ns {
                std::mem::swap(&mut held.at, &mut at);
            }
        }
    }
    Some(Wait {
        number,
        from_ns: clock::monotonic_ns(),
    })
}

impl Wait {
    /// It is over, with the lock or without.
    pub fn end(self, py: Python<'_>, lock: *mut PyObject, had: bool) {
        let to_ns = thread_state::returned_ns(self.from_ns).unwrap_or_else(clock::monotonic_ns);
        if to_ns.saturating_sub(self.from_ns) < LEAST_NS {
            return;
        }
        let (unit, job) = thread_state::running();
        let at = frames::caller(py, None, frames::MOST_FRAMES);
        thread_state::emit(Event::Contention {
            from_ns: self.from_ns,
            to_ns,
            unit,
            job,
            resource: self.number,
            kind: ResourceKind::Lock,
            flags: if had { 0 } else { GAVE_UP },
            capacity: 1,
            name: names::text(&name_of(py, lock)),
            line: at.map_or(0, |at| names::text(&at.describe(py))),
        });
    }
}

/// "shop.cache_lock", or what it is: "threading.RLock".
fn name_of(py: Python<'_>, lock: *mut PyObject) -> String {
    frames::global_name(py, lock).unwrap_or_else(|| {
        // SAFETY: an object, kept alive by the caller.
        let is_recursive = unsafe { ffi::PyObject_HasAttrString(lock, c"_is_owned".as_ptr()) } != 0;
        format!("threading.{}", if is_recursive { "RLock" } else { "Lock" })
    })
}

fn this_thread() -> usize {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { libc::pthread_self() as usize }
}

/// Guard of the table. Nothing that runs Python is called under it.
struct Guarded(MutexGuard<'static, Option<Table>>);

impl std::ops::Deref for Guarded {
    type Target = Table;
    fn deref(&self) -> &Table {
        self.0.as_ref().expect("made by `table`")
    }
}

impl std::ops::DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Table {
        self.0.as_mut().expect("made by `table`")
    }
}

fn table() -> Option<Guarded> {
    let mut table = TABLE.try_lock().ok()?;
    let now = (forks::generation(), switch::times());
    if table.as_ref().is_none_or(|known| known.of != now) {
        // What it refers to is not given back: that could run the program's code.
        std::mem::forget(table.replace(Table {
            of: now,
            ..Table::default()
        }));
        HELD.store(0, Ordering::Relaxed);
    }
    Some(Guarded(table))
}
