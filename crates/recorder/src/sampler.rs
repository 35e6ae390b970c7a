//! Where culprits are while others wait: a native thread that looks at their Python frames.
//!
//! It sleeps while nobody waits. Once a thread of a job has waited for the GIL for 5 ms, or a loop's slice lasts for
//! 10 ms while its poll would find something (or other jobs are in progress), it takes the GIL every 20 ms and looks at
//! one stack: that of the thread that had the GIL when a waiter last looked, or that runs the long slice. If that thread
//! blocks by then, there is no sample: it is no longer the culprit. A job's slice of over 10 ms is looked at five times
//! a second in any case, for nobody's waiting: these are the lines that the job itself computes in, and should its
//! process be killed, that is where it was. As often it looks at a job that has been in one call for 50 ms: that is the
//! line which keeps a thread of the server.
//!
//! Threads that hand a lock around (a log's, at each line) wait for the GIL only in short pieces; most of the time they
//! wait for the lock. So a thread of a job that has waited for a lock for 5 ms is a reason to look, too. Then the looks
//! keep to their own time, whatever runs: a wait for the GIL that grows long says by itself that somebody runs who does
//! not let go, and a look at each such moment would see nobody else. The stack is that of the thread that the sampler
//! itself has taken the GIL from, at once; if the GIL was free, nobody ran, and there is none.
//!
//! Each time it has slept for as long as it wanted to, it looks at who has the GIL, without taking it: a job's thread that
//! runs and has it not computes without it ([`Sampler::looks`]). A recording of a loop shows that in no other way.
//!
//! It must be gone when the interpreter finalises (a thread that asks for the GIL then is ended, which Rust cannot
//! bear): [`sampler_stop`] is registered with `atexit`, and waits for it. A forked child has none until it starts its own.

use crate::alarm::{self, ASLEEP, LIGHTLY, TO_ITS_TIME};
use crate::calls::gil::{self, GilKeeper};
use crate::frames;
use crate::gil_waits::{
    gil_waited_for, waited_at_ns, GIVER, HOLDER, WAITED_NS, WAITING, WAITS_SINCE_NS,
};
use crate::names;
use crate::pending;
use crate::ring::{Ring, THREAD_EVENTS};
use crate::switch::on;
use crate::thread_registry::{self, registry};
use greenlane_interpreter::endings::guard_at_exit;
use greenlane_interpreter::{gil::holder, gil_enabled};
use greenlane_process::numbers::NumberMap;
use greenlane_process::{clock, forks, our_threads, signals};
use greenlane_recording_format::event::{Event, Text, NO_JOB};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::wrap_pyfunction;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

/// Between two looks. A wake-up costs some 20 us on a virtual machine: at 20 ms that is a thousandth of a core.
const PERIOD_NS: u64 = 20_000_000;
/// After a look it rests for this many times what the look took: looks are at most a five-hundredth of a core, and the
/// threads that they take the GIL from pay as much again.
const RESTS: u64 = 500;
const MOST_REST_NS: u64 = 200_000_000;
/// Between two looks while the loops wait for work.
const IDLE_NS: u64 = 60_000_000;
/// At most so much longer, by chance: a program that does something each 20 ms would always be seen at the same of it.
const UNEVEN_NS: u64 = 8_000_000;
/// A slice of a loop longer than this keeps the others.
const OVERDUE_NS: u64 = 10_000_000;
/// Python code gives the GIL up after a switch interval, 5 ms, if it is asked for it: who keeps it for so long is in one
/// call of C.
const KEPT_NS: u64 = 25_000_000;
/// A look stands for at most this.
const LONGEST_NS: u64 = 1_000_000_000;
/// A job's slice as long as this is looked at though nobody waits, so often.
const ALONE_NS: u64 = 10_000_000;
/// So is one that has been in a call that blocks for so long.
const BLOCKED_NS: u64 = 50_000_000;
const ALONE_EVERY_NS: u64 = 200_000_000;
/// Without a loop, it sleeps until it is woken, or this long.
const ASLEEP_NS: u64 = 500_000_000;
/// Threads that run jobs whose hold of the GIL is looked at each time.
const MOST_RUNNING: usize = 4;
/// Beyond this many stacks only the innermost frame is recorded; beyond twice as many, nothing.
const MOST_STACKS: usize = 4096;

/// One more than the fork generation of the process whose sampler runs; 0 = none does.
static RUNS: AtomicU64 = AtomicU64::new(0);
/// Whether [`sampler_stop`] is registered to run at exit.
static AT_EXIT: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
/// Stacks looked at, and looks that came too late.
pub static SAMPLES: AtomicU64 = AtomicU64::new(0);
pub static LATE: AtomicU64 = AtomicU64::new(0);
/// CPU that it has used.
pub static CPU_NS: AtomicU64 = AtomicU64::new(0);

/// Whether stacks are wanted, and the thread at all.
static STACKS: AtomicBool = AtomicBool::new(false);
static WANTED: AtomicBool = AtomicBool::new(false);
/// Called by the thread before it looks at anything, once a process.
static BEGAN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (*, stacks=true, began=None))]
pub fn sampler_start(py: Python<'_>, stacks: bool, began: Option<Py<PyAny>>) -> PyResult<()> {
    guard_at_exit(py)?;
    forks::watch();
    // Nobody waits for the GIL on a free-threaded build, and a stack cannot be looked at.
    STACKS.store(stacks && gil_enabled(py)?, Ordering::Relaxed);
    let wanted = STACKS.load(Ordering::Relaxed) || began.is_some();
    if let Some(began) = began {
        let _ = BEGAN.set(py, began);
    }
    let stop = wrap_pyfunction!(sampler_stop, py)?;
    if !AT_EXIT.swap(true, Ordering::Relaxed) {
        py.import("atexit")?.call_method1("register", (stop,))?;
    }
    WANTED.store(wanted, Ordering::Relaxed);
    if !pending::is_pending() {
        begin();
    }
    Ok(())
}

/// Starts the thread of this process, if it is wanted and does not run. Needs no GIL.
pub fn begin() {
    let own = forks::generation() + 1;
    let before = RUNS.load(Ordering::Relaxed);
    if before == own || !WANTED.load(Ordering::Relaxed) {
        return;
    }
    let is_first = RUNS.compare_exchange(before, own, Ordering::Relaxed, Ordering::Relaxed);
    if is_first.is_err() {
        return;
    }
    STOP.store(false, Ordering::Relaxed);
    WAITING.store(0, Ordering::Relaxed);
    CPU_NS.store(0, Ordering::Relaxed);
    let started = signals::with_all_blocked(|| {
        std::thread::Builder::new()
            .name("greenlane-sampler".to_owned())
            .spawn(run)
    });
    if started.is_err() {
        RUNS.store(0, Ordering::Relaxed);
    }
}

/// Ends the sampler and waits until it no longer uses the interpreter. Runs by itself at exit.
#[pyfunction]
pub fn sampler_stop(py: Python<'_>) {
    WANTED.store(false, Ordering::Relaxed);
    let own = forks::generation() + 1;
    if RUNS.load(Ordering::Relaxed) != own {
        return;
    }
    STOP.store(true, Ordering::Relaxed);
    py.detach(|| {
        while RUNS.load(Ordering::Acquire) == own {
            alarm::wake();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
}

fn run() {
    our_threads::mark();
    gil::is_sampler();
    let own = RUNS.load(Ordering::Relaxed);
    let looked = std::panic::catch_unwind(|| {
        // From CPython 3.15 on `site`, and what it starts, runs before the interpreter may be attached to.
        // SAFETY: asks for a flag; needs no GIL.
        while unsafe { pyo3::ffi::Py_IsInitialized() } == 0 {
            if STOP.load(Ordering::Relaxed) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Python::try_attach(|py| {
            if let Some(began) = BEGAN.get(py) {
                let _ = began.call0(py);
            }
            if STACKS.load(Ordering::Relaxed) {
                Sampler::new().look_until_stopped(py);
            }
        });
    });
    // A panic is a defect in our code: sampling ends, the program goes on.
    drop(looked);
    let _ = RUNS.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed);
}

/// Whose stack is wanted.
enum LookTarget {
    /// Who had the GIL; others have waited since then.
    Holder(u64),
    /// Whom the sampler has got the GIL from; others have waited since then, for a lock.
    Giver(u64),
    /// The thread of this loop, if it is still in the slice that began then.
    Loop(Arc<Ring>, u64),
    /// Likewise, of any thread; nobody waits.
    Alone(Arc<Ring>, u64),
    /// The thread is in a call that blocks, which began then.
    Blocked(Arc<Ring>, u64),
}

struct Sampler {
    /// Its own way to the writer. It has no thread state: it is nobody's unit, and nobody's culprit.
    ring: Arc<Ring>,
    looked_ns: u64,
    /// CPU of its thread before it was made.
    cpu_from_ns: u64,
    /// Until the next look, at least.
    rest_ns: u64,
    alone_ns: u64,
    blocked_ns: u64,
    /// Whose hold of the GIL is looked at first.
    turn: usize,
    /// See [`Sampler::chance`].
    chance: u64,
    /// Stacks by their hash, and by [`frames::Stack::place`].
    known: NumberMap<u64, Text>,
    places: NumberMap<u64, Text>,
}

impl Sampler {
    fn new() -> Self {
        let ring = Arc::new(Ring::new(THREAD_EVENTS));
        thread_registry::register(&ring);
        Self {
            ring,
            looked_ns: 0,
            cpu_from_ns: clock::thread_cpu_ns(),
            rest_ns: PERIOD_NS,
            alone_ns: 0,
            blocked_ns: 0,
            turn: 0,
            chance: clock::monotonic_ns() | 1,
            known: NumberMap::default(),
            places: NumberMap::default(),
        }
    }

    fn look_until_stopped(mut self, py: Python<'_>) {
        while let Some(wanted) = py.detach(|| self.wait()) {
            let before_ns = clock::thread_cpu_ns();
            self.look(py, &wanted);
            let cost_ns = clock::thread_cpu_ns().saturating_sub(before_ns);
            self.rest_ns = (cost_ns * RESTS).clamp(PERIOD_NS, MOST_REST_NS);
        }
        self.ring.end();
    }

    /// Waits, without the GIL, until somebody waits; None: the sampler is to end.
    fn wait(&mut self) -> Option<LookTarget> {
        let mut slept_ns = 0;
        loop {
            CPU_NS.store(clock::thread_cpu_ns() - self.cpu_from_ns, Ordering::Relaxed);
            ASLEEP.store(LIGHTLY, Ordering::SeqCst);
            let (mut pause_ns, mut how) = (ASLEEP_NS, LIGHTLY);
            if on() {
                let now_ns = clock::monotonic_ns();
                let rings = thread_registry::rings();
                if slept_ns > 0 {
                    self.looks(&rings, slept_ns);
                }
                let locked_ns = locked_out_since(&rings, now_ns);
                let loops = rings
                    .iter()
                    .filter(|ring| ring.epoll_fd.load(Ordering::Relaxed) >= 0);
                let waits = gil_waited_for(now_ns);
                let runs = |ring: &&Arc<Ring>| ring.from_ns.load(Ordering::Relaxed) != 0;
                let works = |ring: &Arc<Ring>| ring.job.load(Ordering::Relaxed) != NO_JOB;
                if locked_ns.is_some() {
                    (pause_ns, how) = (PERIOD_NS, TO_ITS_TIME);
                    ASLEEP.store(how, Ordering::SeqCst);
                } else if waits || loops.clone().any(|ring| runs(&ring)) {
                    pause_ns = PERIOD_NS;
                } else if loops.clone().next().is_some() || rings.iter().any(works) {
                    pause_ns = IDLE_NS;
                }
                let chance_ns = self.chance() % UNEVEN_NS;
                if how == LIGHTLY {
                    pause_ns += chance_ns;
                }
                let left_ns = (self.looked_ns + self.rest_ns).saturating_sub(now_ns);
                if left_ns > 0 && how == LIGHTLY {
                    // Who waits for the GIL would wake it at each of the interpreter's intervals, and get nothing from it.
                    (pause_ns, how) = (pause_ns.min(left_ns + chance_ns), TO_ITS_TIME);
                    ASLEEP.store(how, Ordering::SeqCst);
                }
                if left_ns == 0 {
                    if let Some(since_ns) = locked_ns {
                        GIVER.store(0, Ordering::Relaxed);
                        return self.unless_stopped(LookTarget::Giver(since_ns));
                    }
                    if waits {
                        return self.unless_stopped(LookTarget::Holder(
                            WAITS_SINCE_NS.load(Ordering::Relaxed),
                        ));
                    }
                    for ring in loops {
                        let from_ns = ring.from_ns.load(Ordering::Relaxed);
                        let overdue = from_ns != 0 && now_ns.saturating_sub(from_ns) >= OVERDUE_NS;
                        if overdue && keeps_somebody(ring) {
                            return self
                                .unless_stopped(LookTarget::Loop(Arc::clone(ring), from_ns));
                        }
                    }
                    let alone = self.alone(&rings, now_ns);
                    if let Some(wanted) = alone.or_else(|| self.find_blocked(&rings, now_ns)) {
                        return self.unless_stopped(wanted);
                    }
                }
            }
            if STOP.load(Ordering::Relaxed) {
                return None;
            }
            let from_ns = clock::monotonic_ns();
            slept_ns = if alarm::sleep(pause_ns, how) {
                clock::monotonic_ns() - from_ns
            } else {
                0
            };
        }
    }

    /// Numbers that look random (xorshift64).
    fn chance(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }

    /// Writes down of threads that run jobs whether they have the GIL. What is seen stands for the time slept: at moments
    /// that follow each other more closely the same is seen again.
    ///
    /// Only at moments that the clock has chosen: who wakes the sampler waits for the GIL, so somebody has it then.
    fn looks(&mut self, rings: &[Arc<Ring>], slept_ns: u64) {
        let runs = |ring: &&Arc<Ring>| {
            ring.from_ns.load(Ordering::Relaxed) != 0 && ring.job.load(Ordering::Relaxed) != NO_JOB
        };
        let running: Vec<_> = rings.iter().filter(runs).collect();
        if running.is_empty() {
            return;
        }
        // In turns, where there are many.
        self.turn = self.turn.wrapping_add(MOST_RUNNING);
        let (count, looked) = (running.len(), running.len().min(MOST_RUNNING));
        // After a long sleep one look would stand for more than many others.
        let weight_ns = slept_ns.min(IDLE_NS) * count as u64 / looked as u64;
        for number in 0..looked {
            let ring = running[self.turn.wrapping_add(number) % count];
            if let Some(event) = look_at(ring, rings, weight_ns) {
                self.ring.push(event);
            }
        }
    }

    fn alone(&self, rings: &[Arc<Ring>], now_ns: u64) -> Option<LookTarget> {
        if now_ns.saturating_sub(self.alone_ns) < ALONE_EVERY_NS {
            return None;
        }
        in_turns(rings, now_ns).find_map(|ring| {
            let from_ns = ring.from_ns.load(Ordering::Relaxed);
            let long = from_ns != 0 && now_ns.saturating_sub(from_ns) >= ALONE_NS;
            let of_job = ring.job.load(Ordering::Relaxed) != NO_JOB;
            (long && of_job).then(|| LookTarget::Alone(Arc::clone(ring), from_ns))
        })
    }

    fn find_blocked(&self, rings: &[Arc<Ring>], now_ns: u64) -> Option<LookTarget> {
        if now_ns.saturating_sub(self.blocked_ns) < ALONE_EVERY_NS {
            return None;
        }
        in_turns(rings, now_ns).find_map(|ring| {
            let left_ns = ring.left_ns.load(Ordering::Relaxed);
            let long = is_in(ring, left_ns) && now_ns.saturating_sub(left_ns) >= BLOCKED_NS;
            // A loop's thread is in its poll, for nobody.
            let plain = ring.epoll_fd.load(Ordering::Relaxed) < 0;
            (long && plain).then(|| LookTarget::Blocked(Arc::clone(ring), left_ns))
        })
    }

    fn unless_stopped(&self, wanted: LookTarget) -> Option<LookTarget> {
        gil::take_immediately(matches!(wanted, LookTarget::Giver(_)));
        (!STOP.load(Ordering::Relaxed)).then_some(wanted)
    }

    /// Looks at one stack. With the GIL.
    fn look(&mut self, py: Python<'_>, wanted: &LookTarget) {
        let (state, ring, since_ns) = match wanted {
            LookTarget::Holder(since_ns) => {
                // Asked for the GIL, it gave it up where it was, and is there until it has it again.
                let holder = HOLDER.load(Ordering::Relaxed);
                let runs = |ring: &Ring| ring.from_ns.load(Ordering::Relaxed) != 0;
                (holder, ring_of(holder, runs), *since_ns)
            }
            LookTarget::Giver(since_ns) => {
                let giver = GIVER.load(Ordering::Relaxed);
                // It may have run into the lock that the others wait for. Without a job it ran out of work.
                let ran = |ring: &Ring| {
                    ring.from_ns.load(Ordering::Relaxed) != 0
                        || ring.lock_ns.load(Ordering::Relaxed) != 0
                            && ring.job.load(Ordering::Relaxed) != NO_JOB
                };
                (giver, ring_of(giver, ran), *since_ns)
            }
            LookTarget::Loop(ring, from_ns) | LookTarget::Alone(ring, from_ns) => {
                let same = ring.from_ns.load(Ordering::Relaxed) == *from_ns;
                let state = ring.state.load(Ordering::Relaxed);
                (state, same.then(|| Arc::clone(ring)), *from_ns)
            }
            LookTarget::Blocked(ring, left_ns) => {
                let same = is_in(ring, *left_ns);
                let state = ring.state.load(Ordering::Relaxed);
                (state, same.then(|| Arc::clone(ring)), *left_ns)
            }
        };
        if let Some((kept, ring)) = self.find_keeper() {
            return self.look_at_keeper(py, &kept, &ring);
        }
        let now_ns = clock::monotonic_ns();
        let before_ns = std::mem::replace(&mut self.looked_ns, now_ns);
        let Some(ring) = ring.filter(|_| state != 0 && on()) else {
            LATE.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let weight_ns = match wanted {
            LookTarget::Alone(..) | LookTarget::Blocked(..) => 0,
            _ => now_ns.saturating_sub(since_ns.max(before_ns)),
        };
        match wanted {
            LookTarget::Alone(..) => self.alone_ns = now_ns,
            LookTarget::Blocked(..) => self.blocked_ns = now_ns,
            _ => {}
        }
        if let Some(stack) = self.stack_of(py, state) {
            SAMPLES.fetch_add(1, Ordering::Relaxed);
            self.ring.push(Event::Stack {
                at_ns: now_ns,
                unit: ring.unit.load(Ordering::Relaxed),
                job: ring.job.load(Ordering::Relaxed),
                weight_ns: weight_ns.min(LONGEST_NS),
                stack,
                kept_ns: 0,
            });
        }
    }

    /// Who has kept the GIL since it was asked for it, and is where it did.
    fn find_keeper(&self) -> Option<(GilKeeper, Arc<Ring>)> {
        let kept = gil::longest_keeper();
        if kept.ns() < KEPT_NS || !on() {
            return None;
        }
        // Its slice is cut when it has the GIL again: a later one says nothing of the call.
        let same = |ring: &Ring| {
            let from_ns = ring.from_ns.load(Ordering::Relaxed);
            from_ns != 0 && from_ns <= kept.to_ns
        };
        Some((kept, ring_of(kept.state, same)?))
    }

    /// One call of C, from the line that made it: one look for all of its time.
    fn look_at_keeper(&mut self, py: Python<'_>, kept: &GilKeeper, ring: &Ring) {
        let now_ns = clock::monotonic_ns();
        self.looked_ns = now_ns;
        self.alone_ns = now_ns;
        let somebody_waits = waited_at_ns() >= kept.from_ns
            || ring.epoll_fd.load(Ordering::Relaxed) >= 0 && keeps_somebody(ring);
        if let Some(stack) = self.stack_of(py, kept.state) {
            SAMPLES.fetch_add(1, Ordering::Relaxed);
            self.ring.push(Event::Stack {
                at_ns: kept.to_ns,
                unit: ring.unit.load(Ordering::Relaxed),
                job: ring.job.load(Ordering::Relaxed),
                weight_ns: if somebody_waits { kept.ns() } else { 0 },
                stack,
                kept_ns: kept.ns(),
            });
        }
    }

    fn stack_of(&mut self, py: Python<'_>, state: usize) -> Option<Text> {
        frames::look(py, state, |stack| {
            let place = stack.place();
            if let Some(&text) = self.places.get(&place) {
                return Some(text);
            }
            let text = self.text_of(&stack.describe())?;
            if self.places.len() >= MOST_STACKS {
                self.places.clear();
            }
            self.places.insert(place, text);
            Some(text)
        })?
    }

    fn text_of(&mut self, frames: &[String]) -> Option<Text> {
        let mut said = frames.join(";");
        if self.known.len() >= MOST_STACKS {
            said = frames.last()?.clone();
        }
        let mut hasher = DefaultHasher::new();
        said.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(&text) = self.known.get(&hash) {
            return Some(text);
        }
        if self.known.len() >= 2 * MOST_STACKS {
            return None;
        }
        let text = names::text(&said);
        self.known.insert(hash, text);
        Some(text)
    }
}

/// Whether the thread that runs a job has the GIL; None: it is not known, or it runs no more.
fn look_at(ring: &Ring, rings: &[Arc<Ring>], weight_ns: u64) -> Option<Event> {
    let from_ns = ring.from_ns.load(Ordering::Acquire);
    let (unit, job) = (
        ring.unit.load(Ordering::Relaxed),
        ring.job.load(Ordering::Relaxed),
    );
    let state = ring.state.load(Ordering::Relaxed);
    let at_ns = clock::monotonic_ns();
    let has_it = holder()?;
    fence(Ordering::Acquire);
    if from_ns == 0 || job == NO_JOB || ring.from_ns.load(Ordering::Relaxed) != from_ns {
        return None;
    }
    // A state that nobody is known by may be another one of the same thread.
    let others = |ring: &Arc<Ring>| ring.state.load(Ordering::Relaxed) == has_it && has_it != state;
    let free = has_it == 0 || rings.iter().any(others);
    if free && !wants_a_core(ring.thread.load(Ordering::Relaxed))? {
        return None; // In a call that nobody sees.
    }
    Some(Event::Look {
        at_ns,
        unit,
        job,
        weight_ns,
        free,
    })
}

/// Whether a thread of this process runs, or could if it had a core; None: it is gone, or the system does not say.
fn wants_a_core(thread: u32) -> Option<bool> {
    let mut said = [0; 64];
    let mut file = File::open(format!("/proc/self/task/{thread}/stat")).ok()?;
    let length = file.read(&mut said).ok()?;
    state_in(&said[..length]).map(|state| state == b'R')
}

/// The letter behind the name, which is of at most 15 bytes, in brackets, and may hold some.
fn state_in(stat: &[u8]) -> Option<u8> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    stat.get(end + 2).copied()
}

/// All of them, each time from another one on.
fn in_turns(rings: &[Arc<Ring>], now_ns: u64) -> impl Iterator<Item = &Arc<Ring>> {
    let first = now_ns as usize % rings.len().max(1);
    rings[first..].iter().chain(&rings[..first])
}

/// Whether the thread is in a call for a job that may block, which began at `left_ns`.
fn is_in(ring: &Ring, left_ns: u64) -> bool {
    left_ns != 0
        && ring.from_ns.load(Ordering::Relaxed) == 0
        && ring.job.load(Ordering::Relaxed) != NO_JOB
        && ring.left_ns.load(Ordering::Relaxed) == left_ns
}

/// Since when a thread of a job waits for a lock, the first of them; None: for less than 5 ms, or none does.
fn locked_out_since(rings: &[Arc<Ring>], now_ns: u64) -> Option<u64> {
    let of_jobs = rings
        .iter()
        .filter(|ring| ring.job.load(Ordering::Relaxed) != NO_JOB);
    let since_ns = of_jobs.map(|ring| ring.lock_ns.load(Ordering::Relaxed));
    let first_ns = since_ns.filter(|&since_ns| since_ns != 0).min()?;
    (now_ns.saturating_sub(first_ns) >= WAITED_NS).then_some(first_ns)
}

/// The ring of the thread with this `PyThreadState`, if it does what is asked.
fn ring_of(state: usize, does: impl Fn(&Ring) -> bool) -> Option<Arc<Ring>> {
    let found = |ring: &Arc<Ring>| ring.state.load(Ordering::Relaxed) == state && does(ring);
    thread_registry::rings()
        .iter()
        .find(|ring| found(ring))
        .cloned()
}

/// Whether somebody waits for the loop's long slice to end: its poll would find something, or other jobs are open.
fn keeps_somebody(ring: &Ring) -> bool {
    let mut poll = libc::pollfd {
        fd: ring.epoll_fd.load(Ordering::Relaxed),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one descriptor, a local; asks without waiting, and takes nothing from the loop.
    if unsafe { libc::poll(&mut poll, 1, 0) } == 1 && poll.revents & libc::POLLIN != 0 {
        return true;
    }
    registry()
        .live
        .try_lock()
        .is_ok_and(|live| live.in_progress() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_state_is_found_behind_any_name() {
        assert_eq!(state_in(b"7 (python) R 1 7 7"), Some(b'R'));
        assert_eq!(state_in(b"7 (a) R (b)) S 1 7 7"), Some(b'S'));
        assert_eq!(state_in(b"7 (python"), None);
        assert_eq!(state_in(b"7 (python)"), None);
    }

    #[test]
    fn who_runs_wants_a_core_and_who_sleeps_does_not() {
        // SAFETY: gettid has no arguments and cannot fail.
        let own = unsafe { libc::gettid() } as u32;
        assert_eq!(wants_a_core(own), Some(true));
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            // SAFETY: as above.
            let _ = tell.send(unsafe { libc::gettid() } as u32);
            let _ = ended.recv();
        });
        let thread = told.recv().expect("it runs");
        while wants_a_core(thread) != Some(false) {
            std::thread::yield_now();
        }
        drop(end);
        sleeper.join().expect("it ends");
        assert_eq!(wants_a_core(u32::MAX), None);
    }
}
