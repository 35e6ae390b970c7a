//! The gang: the threads of a process that share a GIL and run jobs. They keep to one core, so that the GIL is handed on
//! where it was released; nobody else does.
//!
//! | module | is |
//! |---|---|
//! | [`state`] | its core, what it was told, its members |
//! | [`watch`] | our thread: it chooses the core, and sets free what need not keep to it |
//! | [`usage`] | what others use of each core, and whether another process' gang has one |
//! | [`hand_over`] | what a hand-over costs on this machine |
//!
//! A member's thread and the watcher both change its cores. The watcher stores the gang's core before it changes those of members;
//! a thread that has set its own looks at that again. What slips through is put right at the watcher's next look.
//!
//! A forked child is in no gang: its thread uses all cores, and makes a gang of its own with its first job.

mod hand_over;
mod state;
mod usage;
mod watch;

use crate::face::{face, Part, ThreadFace};
use greenlane_interpreter::gil;
use greenlane_policy::gang::HandOver;
use greenlane_process::affinity::{threads, Cores};
use greenlane_process::{forks, signals};
use pyo3::Python;
use state::{is_back, locked, rule, Rule, State, CLAIM, CORE, RULE, WANTED};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once};

pub use state::in_force;

/// A thread by itself hands nothing on.
const FEWEST: usize = 2;
static FORKS: Once = Once::new();

/// What there is to show.
pub struct Shown {
    pub core: Option<u32>,
    pub why: &'static str,
    pub hand_over: Option<HandOver>,
}

/// From now on threads that run jobs keep to one of `cores` while that pays; with `always`, whether it does or not.
pub fn start(py: Python<'_>, cores: Vec<u32>, always: bool) {
    if WANTED.load(Ordering::SeqCst) {
        return;
    }
    gil::find(py);
    FORKS.call_once(|| {
        forks::watch();
        // SAFETY: the handler makes system calls and stores atomics, which a forked child may do.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
    let rule = Rule {
        allowed: Cores::of(cores.iter().copied()),
        cores,
        always,
    };
    RULE.store(Box::into_raw(Box::new(rule)), Ordering::Release);
    WANTED.store(true, Ordering::SeqCst);
    watch(&mut locked());
}

/// From now on every thread uses all cores, also those that came to keep to one by a member. Waits for the watcher's end.
pub fn stop() {
    if !WANTED.swap(false, Ordering::SeqCst) {
        return;
    }
    let watcher = {
        let mut state = locked();
        state.why = "";
        state.watcher.take()
    };
    if let Some(watcher) = watcher {
        watcher.thread().unpark();
        let members = watcher.join().unwrap_or_default();
        locked().arrived.extend(members);
    }
    let core = CORE.swap(-1, Ordering::SeqCst);
    usage::give_up_claim();
    let (Some(rule), Ok(core)) = (rule(), u32::try_from(core)) else {
        return;
    };
    // Again for threads that one of them started meanwhile.
    let frees = |&thread: &i32| {
        Cores::of_thread(thread) == Some(Cores::one(core)) && rule.allowed.give_to(thread)
    };
    while threads().iter().filter(|thread| frees(thread)).count() > 0 {}
}

/// This thread runs a job, or hands requests to those who do.
pub fn join(py: Python<'_>, face: &Arc<ThreadFace>) {
    let Some(rule) = rule().filter(|_| face.part() == Part::None && WANTED.load(Ordering::SeqCst))
    else {
        return;
    };
    let now = Cores::of_thread(0);
    let here = in_force().map(Cores::one);
    if now.is_none() || (now != Some(rule.allowed) && now != here) {
        face.set_part(Part::Left);
        return;
    }
    face.runs_as(gil::this_state(py));
    face.set_part(Part::Member);
    let mut state = locked();
    state.arrived.push(Arc::downgrade(face));
    watch(&mut state);
    drop(state);
    keep();
}

/// A member's phase begins, which will compute without the GIL.
pub fn go_away(face: &ThreadFace) {
    if let Some((rule, core)) = rule().zip(in_force()) {
        if face.part() == Part::Member && face.changes_part(Part::Member, Part::Away) {
            rule.send_away(0, core);
        }
    }
}

/// Such a phase ends, or one that was found to.
pub fn come_back(face: &ThreadFace) {
    if face.part() == Part::Away && face.changes_part(Part::Away, Part::Member) {
        is_back();
        keep();
    }
}

/// The program has set the cores of a thread itself; 0 = of the calling one. That one is no member from now on.
pub fn leave(thread: i32) {
    match face().filter(|face| thread == 0 || face.thread() == thread) {
        Some(face) => face.set_part(Part::Left),
        None if in_force().is_some() => locked().left.push(thread),
        None => {}
    }
}

/// Does what a member may start other threads or programs by: they use all cores.
pub fn freely<T>(does: impl FnOnce() -> T) -> T {
    let Some((rule, core)) = rule().zip(in_force()) else {
        return does();
    };
    let face = face();
    let starts = |face: &Arc<ThreadFace>| face.changes_part(Part::Member, Part::Starting);
    let member = face.filter(starts);
    // A member's native code may have started this thread.
    if member.is_some() || Cores::of_thread(0) == Some(Cores::one(core)) {
        rule.allowed.give_to(0);
    }
    let result = does();
    if member.is_some_and(|face| face.changes_part(Part::Starting, Part::Member)) {
        keep();
    }
    result
}

/// The calling thread hands requests to those who run jobs.
pub fn join_here(py: Python<'_>) {
    if let Some(face) = face() {
        join(py, &face);
    }
}

/// Whether a thread of this process is a member, by its number; 0 = the calling one.
pub fn is_member(thread: i32) -> bool {
    let is_one = |face: &Arc<ThreadFace>| !matches!(face.part(), Part::None | Part::Left);
    match face().filter(|face| thread == 0 || face.thread() == thread) {
        Some(face) => is_one(&face),
        None => locked().members.contains(&thread),
    }
}

/// Whether our thread looks which members compute without the GIL.
pub fn watches() -> bool {
    is_wanted() && gil::holder().is_some() && in_force().is_some()
}

pub fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// What the process may use, while a gang is wanted.
pub fn allowed() -> Option<&'static Cores> {
    rule().map(|rule| &rule.allowed)
}

/// Measures what a hand-over costs, once a process; forked children know it. Some 70 ms without the GIL.
pub fn measure(cores: &[u32]) -> Option<HandOver> {
    hand_over::known().or_else(|| hand_over::measure(cores))
}

pub fn shown() -> Shown {
    Shown {
        core: in_force(),
        why: locked().why,
        hand_over: hand_over::known(),
    }
}

/// Lets this thread use what the gang uses.
fn keep() {
    let Some(rule) = rule() else { return };
    loop {
        let core = in_force();
        core.map_or(rule.allowed, Cores::one).give_to(0);
        if in_force() == core {
            return;
        }
    }
}

fn watch(state: &mut State) {
    if state.watcher.is_none() && state.arrived.len() >= FEWEST {
        let thread = std::thread::Builder::new()
            .name("greenlane-gang".into())
            .stack_size(256 * 1024);
        // Without room for a thread there is no gang.
        state.watcher = signals::with_all_blocked(|| thread.spawn(watch::run)).ok();
    }
}

extern "C" fn in_child() {
    let claim = CLAIM.swap(-1, Ordering::SeqCst);
    if claim >= 0 {
        // SAFETY: the child's copy of our own descriptor.
        unsafe { libc::close(claim) };
    }
    let core = CORE.swap(-1, Ordering::SeqCst);
    if let (Some(rule), Ok(core)) = (rule(), u32::try_from(core)) {
        if Cores::of_thread(0) == Some(Cores::one(core)) {
            rule.allowed.give_to(0);
        }
    }
}
