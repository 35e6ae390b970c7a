//! This thread's loop: what runs in it now, why it runs, and the tasks that it has seen.

use super::task::Task;
use crate::names;
use crate::switch::on;
use crate::thread_state;
use greenlane_process::clock;
use greenlane_process::forks;
use greenlane_process::numbers::NumberMap;
use greenlane_recording_format::event::{UnitKind, NO_JOB};
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

/// Who makes a callback or a task ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A descriptor that the loop polled.
    Poll,
    /// A timer that was due.
    Timer,
    /// Another thread.
    Thread,
    /// A task of this loop.
    Task,
}

/// Why something runs, and since when it could: it became ready in [`known_ns`, `ready_ns`].
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    pub source: Source,
    /// The job that asked for it; 0 = none.
    pub job: u64,
    pub known_ns: u64,
    /// 0 = at this moment: what runs makes others ready while it runs.
    pub ready_ns: u64,
}

impl Cause {
    /// Ready at exactly `at_ns`.
    pub fn at(source: Source, job: u64, at_ns: u64) -> Self {
        Self {
            source,
            job,
            known_ns: at_ns,
            ready_ns: at_ns,
        }
    }
}

/// Tasks by their address.
pub type Tasks = NumberMap<usize, Arc<Task>>;

/// See the module. One a thread, at one address for ever: it is small, and others may look at it while the thread ends.
pub struct CurrentLoop {
    generation: u64,
    /// Of `run_forever`s under way, one within the other.
    depth: u32,
    /// The thread state knows that this thread runs a loop.
    pub is_loop: bool,
    /// The loop's own unit, between its tasks.
    own: thread_state::Unit,
    /// The task whose step runs; null = none.
    pub running: *const Task,
    /// Why the callback that runs does so; None = the loop found a descriptor ready.
    pub cause: Option<Cause>,
    /// The task that runs has put itself into the queue again.
    pub again: bool,
    pub tasks: Tasks,
    /// Look for dead tasks when there are this many.
    sweep_at: usize,
}

/// Fewer tasks are not worth a look.
const FEW: usize = 1024;

thread_local! {
    static CURRENT: Cell<*mut CurrentLoop> = const { Cell::new(ptr::null_mut()) };
}

/// This thread's.
#[inline]
pub fn current_loop() -> &'static mut CurrentLoop {
    let current = CURRENT.with(Cell::get);
    if !current.is_null() {
        // SAFETY: made by `make`, never freed; only this thread has the pointer. Callers take it again after they have
        // called Python.
        let current = unsafe { &mut *current };
        if current.generation == forks::generation() {
            return current;
        }
    }
    make()
}

#[cold]
fn make() -> &'static mut CurrentLoop {
    // What was there is a copy from before a fork: its units are the parent's. It is left alone.
    let depth = match CURRENT.with(Cell::get) {
        old if old.is_null() => 0,
        // SAFETY: as in `here`.
        old => unsafe { (*old).depth },
    };
    let current = Box::leak(Box::new(CurrentLoop {
        generation: forks::generation(),
        depth,
        is_loop: false,
        own: thread_state::new_unit(UnitKind::Loop, 0),
        running: ptr::null(),
        cause: None,
        again: false,
        tasks: Tasks::default(),
        sweep_at: FEW,
    }));
    CURRENT.with(|place| place.set(current));
    current
}

impl CurrentLoop {
    /// Makes sure that the recorder knows this thread as a loop's.
    #[inline]
    pub fn mind(&mut self, now_ns: u64) {
        if !self.is_loop {
            self.begin(now_ns);
        }
    }

    #[cold]
    fn begin(&mut self, now_ns: u64) {
        thread_state::enter_loop();
        self.is_loop = true;
        self.own = thread_state::new_unit(UnitKind::Loop, names::text("loop"));
        self.own.job = NO_JOB;
        self.run_own(now_ns);
    }

    /// The loop's own unit runs from now on.
    #[inline]
    pub fn run_own(&mut self, now_ns: u64) {
        // SAFETY: `CurrentLoop` is never freed.
        unsafe { thread_state::resume(&raw mut self.own, now_ns) };
    }

    /// Why what is made ready now is so.
    #[inline]
    pub fn why(&self) -> Cause {
        // Its job may have begun within this step: a connection's task reads its next request.
        // SAFETY: a task that runs is alive, and only this thread changes its unit.
        let job = unsafe { self.running.as_ref().map(|task| (*task.unit.get()).job) };
        match self.cause {
            Some(cause) if cause.ready_ns != 0 => Cause {
                job: job.unwrap_or(cause.job),
                ..cause
            },
            Some(cause) => Cause::at(
                cause.source,
                job.unwrap_or(cause.job),
                clock::monotonic_ns(),
            ),
            None if self.is_loop => poll_cause(),
            None => Cause::at(
                Source::Task,
                thread_state::running().1,
                clock::monotonic_ns(),
            ),
        }
    }

    /// When the bytes came that are worked on now, and whether the kernel says so; None = no bytes are.
    pub fn bytes_came(&self) -> Option<(u64, bool)> {
        let cause = match self.cause {
            Some(cause) => cause,
            None if self.is_loop => poll_cause(),
            None => return None,
        };
        let exact = thread_state::last_stamp().is_some_and(|(_, at_ns)| at_ns == cause.ready_ns);
        (cause.source == Source::Poll).then_some((cause.ready_ns, exact))
    }

    /// Forgets the tasks that are gone, now and then.
    pub fn sweep(&mut self) {
        if self.tasks.len() >= self.sweep_at {
            self.tasks.retain(|_, task| task.is_alive());
            self.sweep_at = FEW.max(2 * self.tasks.len());
        }
    }
}

/// A descriptor was found ready: since the kernel's stamp of the bytes that were read, or else since some moment that
/// the polls bound.
fn poll_cause() -> Cause {
    let (known_ns, ready_ns) = thread_state::last_stamp()
        .or_else(thread_state::poll_bracket)
        .unwrap_or_else(|| (0, clock::monotonic_ns()));
    Cause {
        source: Source::Poll,
        job: NO_JOB,
        known_ns,
        ready_ns,
    }
}

/// `run_forever` begins on this thread.
pub fn enter_run() {
    let current = current_loop();
    current.depth += 1;
    if on() {
        current.mind(clock::monotonic_ns());
    }
}

/// `run_forever` ends on this thread.
pub fn leave_run() {
    let current = current_loop();
    current.depth = current.depth.saturating_sub(1);
    if current.depth > 0 {
        return;
    }
    current.tasks.retain(|_, task| task.is_alive());
    current.sweep_at = FEW.max(2 * current.tasks.len());
    if current.is_loop {
        current.is_loop = false;
        thread_state::run_own(clock::monotonic_ns());
        thread_state::leave_loop();
    }
}
