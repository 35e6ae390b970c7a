//! What all of the gang know: its core, what it was told, its members.
//!
//! Nothing here is freed or locked for long: a forked child reads it, and its parent may have held the lock.

use crate::face::ThreadFace;
use greenlane_process::affinity::Cores;
use greenlane_process::forks;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

/// The core in force; -1 = none.
pub static CORE: AtomicI32 = AtomicI32::new(-1);
/// How many members are away, counted again now and then: some end there.
pub static AWAY: AtomicUsize = AtomicUsize::new(0);
/// Whether threads join.
pub static WANTED: AtomicBool = AtomicBool::new(false);
/// The socket that makes the core this process' own; -1 = none.
pub static CLAIM: AtomicI32 = AtomicI32::new(-1);
/// What the gang was started with; never freed, since a forked child reads it.
pub static RULE: AtomicPtr<Rule> = AtomicPtr::new(std::ptr::null_mut());
/// The members, with the fork generation that they are of; never freed, since a child may have copied it locked.
pub static STATE: AtomicPtr<(u64, Mutex<State>)> = AtomicPtr::new(std::ptr::null_mut());

/// What a gang was started with.
pub struct Rule {
    /// What the process may use.
    pub allowed: Cores,
    /// The same, in the order in which equal ones are preferred.
    pub cores: Vec<u32>,
    /// Whether to keep to one core whatever it costs.
    pub always: bool,
}

#[derive(Default)]
pub struct State {
    /// Members that the watcher has not met.
    pub arrived: Vec<Weak<ThreadFace>>,
    /// The threads of those that it has.
    pub members: HashSet<i32>,
    /// Threads whose cores the program has set.
    pub left: Vec<i32>,
    pub watcher: Option<JoinHandle<Vec<Weak<ThreadFace>>>>,
    /// Why no gang is in force.
    pub why: &'static str,
}

/// The gang's core.
pub fn in_force() -> Option<u32> {
    u32::try_from(CORE.load(Ordering::SeqCst)).ok()
}

impl Rule {
    /// Lets a thread use all cores, from another one on: the kernel would leave it where it is for some ms. Where as many
    /// are away as there are others, the kernel shares them out.
    pub fn send_away(&self, thread: i32, core: u32) {
        let others = self.cores.iter().copied().filter(|&other| other != core);
        if AWAY.fetch_add(1, Ordering::Relaxed) + 1 < self.cores.len() {
            Cores::of(others).give_to(thread);
        }
        self.allowed.give_to(thread);
    }
}

/// One of them is back.
pub fn is_back() {
    let less = |away: usize| away.checked_sub(1);
    let _ = AWAY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

pub fn rule() -> Option<&'static Rule> {
    // SAFETY: null, or from a Box that is never freed.
    unsafe { RULE.load(Ordering::Acquire).as_ref() }
}

pub fn locked() -> MutexGuard<'static, State> {
    loop {
        let found = STATE.load(Ordering::Acquire);
        // SAFETY: null, or from a Box that is never freed.
        if let Some((_, state)) =
            unsafe { found.as_ref() }.filter(|(made, _)| *made == forks::generation())
        {
            return state.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let made = Box::into_raw(Box::new((forks::generation(), Mutex::default())));
        let _ = STATE.compare_exchange(found, made, Ordering::AcqRel, Ordering::Acquire);
    }
}
